(** What lossy rules still promise, and what nobody can have for nothing. *)

From Coq Require Import Reals Lra Lia List Arith FunctionalExtensionality.
From Specproof Require Export drafts.
From Specproof.spec Require Export lenience.

(** ** Lenience (Leviathan et al. 2023, A.5): no token comes out more than 1/share times as often as the target says *)
Section Lenience.
Variables (size : nat) (share : R) (p q : row (num := R)).
Hypothesis p_law : is_law size p.
Hypothesis q_law : is_law size q.
Hypothesis share_range : 0 < share <= 1.

Let less : row := scaled share q.
Definition lenient_accept : row := fun x => minimum 1 (p x / less x).
Definition lenient_residual : row := normalised size (excess p less) p.
Definition lenient_refused : R := mean size q (fun x => 1 - lenient_accept x).
Definition lenient_output : row := fun x => q x * lenient_accept x + lenient_refused * lenient_residual x.

(** Drafted and accepted: min(p / share, q). *)
Theorem lenient_mass x : q x * lenient_accept x = Rmin (p x / share) (q x).
Proof using p_law q_law share_range.
  unfold lenient_accept, less, scaled; to_reals; pose proof (nonneg _ _ p_law x).
  assert (0 <= p x / share) by (apply Rmult_le_pos; [| apply Rlt_le, Rinv_0_lt_compat]; lra).
  destruct (nonneg _ _ q_law x) as [some | none].
  - replace (p x / (share * q x)) with (p x / share / q x) by (field; lra).
    assert (back : q x * (p x / share / q x) = p x / share) by (field; lra).
    set (ratio := p x / share / q x) in *; rewrite minimum_is_Rmin; unfold Rmin.
    destruct (Rle_dec 1 ratio), (Rle_dec (p x / share) (q x)); nra.
  - rewrite <- none; cases; lra.
Qed.

(** share times P(reject) is at most what is left of the target: 1 - share + share · P(reject). *)
Lemma lenient_left : sum size (excess p less) = 1 - share + share * lenient_refused.
Proof using p_law q_law share_range.
  unfold lenient_refused; rewrite mean_complement by assumption.
  replace (1 - share + share * (1 - mean size q lenient_accept)) with (1 - share * mean size q lenient_accept) by ring.
  rewrite <- (total _ _ p_law); unfold mean; rewrite <- sum_factor, <- sum_minus; apply sum_ext; intros x _; to_reals.
  rewrite lenient_mass; assert (back : share * (p x / share) = p x) by (field; lra).
  unfold excess, less, scaled; to_reals; rewrite maximum_is_Rmax; unfold Rmax, Rmin.
  destruct (Rle_dec (p x - share * q x) 0), (Rle_dec (p x / share) (q x)); nra.
Qed.

Theorem lenience_bound x : lenient_output x <= p x / share.
Proof using p_law q_law share_range.
  unfold lenient_output; rewrite lenient_mass.
  assert (back : share * (p x / share) = p x) by (field; lra).
  pose proof (nonneg _ _ p_law x) as above; pose proof (nonneg _ _ q_law x).
  assert (bounded : share * (lenient_refused * lenient_residual x) <= excess p less x).
  - assert (sum size (excess p less) * lenient_residual x = excess p less x) as cancel.
    { apply sum_times_normalised; [intros; apply excess_nonneg | | apply p_law].
      intros y far; apply (excess_outside size); [| apply p_law | assumption].
      intros z; unfold less, scaled; to_reals; apply Rmult_le_pos; [lra | apply q_law]. }
    assert (0 <= lenient_residual x).
    { unfold lenient_residual; apply normalised_law; [intros; apply excess_nonneg | | assumption].
      intros y far; apply (excess_outside size); [| apply p_law | assumption].
      intros z; unfold less, scaled; to_reals; apply Rmult_le_pos; [lra | apply q_law]. }
    rewrite <- cancel, lenient_left; nra.
  - revert bounded; unfold excess, less, scaled; to_reals; rewrite maximum_is_Rmax; unfold Rmax, Rmin.
    destruct (Rle_dec (p x - share * q x) 0), (Rle_dec (p x / share) (q x)); intros; nra.
Qed.

End Lenience.

(** ** Lenience along a chain: no text more than 1/share^γ times as often *)
Section LenientChain.
Variables (size : nat) (share : R).
Variables target drawn : model (num := R).
Hypothesis target_model : is_model size target.
Hypothesis drawn_model : is_model size drawn.
Hypothesis share_range : 0 < share <= 1.

Lemma lenience_reached context reached tokens worth :
  value size (lenience share size target drawn context reached tokens) worth =
  reached * value size (lenience share size target drawn context 1 tokens) worth.
Proof using.
  revert context reached; induction tokens as [| x later IH]; intros; cbn; to_reals; [ring |].
  rewrite IH, (IH _ (1 * _)); ring.
Qed.

Lemma lenience_step context x later worth :
  let p := target context in
  let q := drawn context in
  value size (lenience share size target drawn context 1 (x :: later)) worth =
  (1 - lenient_accept share p q x) * mean size (lenient_residual size share p q) (fun y => worth (context ++ [y]))
  + lenient_accept share p q x * value size (lenience share size target drawn (context ++ [x]) 1 later) worth.
Proof using.
  cbn [lenience value stop next kept]; rewrite (lenience_reached (context ++ [x])).
  unfold lenient_accept, lenient_residual; to_reals; ring.
Qed.

Lemma share_power n : 0 < share ^ n <= 1.
Proof using share_range. induction n as [| n IH]; cbn; [lra | nra]. Qed.

(** A bound for one token is a bound for what one token is worth. *)
Lemma lenient_mean context (worth : row) : (forall x, 0 <= worth x) ->
  let p := target context in
  let q := drawn context in
  mean size q (fun x => (1 - lenient_accept share p q x) * mean size (lenient_residual size share p q) worth
    + lenient_accept share p q x * worth x) <= mean size p worth / share.
Proof using target_model drawn_model share_range.
  intros above p q.
  apply Rle_trans with (mean size (lenient_output size share p q) worth).
  - apply Req_le; set (after := mean size (lenient_residual size share p q) worth).
    transitivity (mean size (fun x => q x * lenient_accept share p q x) worth + lenient_refused size share p q * after).
    + unfold lenient_refused; rewrite Rmult_comm, <- mean_factor; unfold mean; rewrite <- sum_plus.
      apply sum_ext; intros; to_reals; ring.
    + unfold after; rewrite <- mean_scaled, <- mean_rows_plus; reflexivity.
  - unfold Rdiv; rewrite Rmult_comm, <- mean_factor; apply sum_le; intros x _; to_reals.
    pose proof (lenience_bound size share p q (target_model context) (drawn_model context) share_range x) as bound.
    specialize (above x); apply Rmult_le_compat_r with (r := worth x) in bound; [| assumption].
    unfold Rdiv in bound; lra.
Qed.

Lemma lenience_worth longer most worth : follows size target worth -> (forall context, 0 <= worth context) ->
  forall context, lenience_round share size target drawn longer most context worth <= worth context / share ^ most.
Proof using target_model drawn_model share_range.
  intros steady above; unfold lenience_round; induction most as [| fewer IH]; intros context; cbn [draw_chain].
  - cbn; to_reals; rewrite (steady context); unfold Rdiv; rewrite Rinv_1; lra.
  - pose proof (share_power fewer); pose proof (share_power (S fewer)).
    assert (larger : 1 <= / share ^ fewer) by (rewrite <- Rinv_1; apply Rinv_le_contravar; lra).
    destruct (longer context).
    + set (p := target context); set (q := drawn context).
      set (after := mean size (lenient_residual size share p q) (fun y => worth (context ++ [y]))).
      assert (0 <= after).
      { apply sum_nonneg; intros y _; apply Rmult_le_pos; [| apply above].
        apply normalised_law; [intros; apply excess_nonneg | | apply target_model]; intros z far.
        apply (excess_outside size); [| apply target_model | assumption].
        intros v; unfold scaled; to_reals; apply Rmult_le_pos; [lra | apply drawn_model]. }
      apply Rle_trans with (/ share ^ fewer * mean size q (fun x => (1 - lenient_accept share p q x) * after
        + lenient_accept share p q x * worth (context ++ [x]))).
      * rewrite <- mean_factor; apply sum_le; intros x _; to_reals.
        pose proof (nonneg _ _ (drawn_model context) x) as sign; fold q in sign.
        destruct sign as [some | none]; [| rewrite <- none; lra].
        apply Rmult_le_compat_l; [lra |].
        assert (chance : 0 <= lenient_accept share p q x <= 1).
        { pose proof (nonneg _ _ (target_model context) x); unfold lenient_accept, scaled; to_reals.
          assert (0 <= p x / (share * q x)) by (apply Rmult_le_pos; [assumption |
            apply Rlt_le, Rinv_0_lt_compat, Rmult_lt_0_compat; lra]).
          cases; lra. }
        set (a := lenient_accept share p q x) in *.
        apply Rle_trans with ((1 - a) * after + a * draw_chain size drawn longer fewer (context ++ [x])
          (fun later => value size (lenience share size target drawn (context ++ [x]) 1 later) worth)).
        -- apply Req_le.
           rewrite <- (draw_chain_const size drawn longer drawn_model fewer (context ++ [x]) ((1 - a) * after)).
           rewrite <- draw_chain_factor, <- draw_chain_plus; f_equal; apply functional_extensionality; intros later.
           apply lenience_step.
        -- match goal with |- _ + a * ?round <= _ => set (rest := round) end.
           assert (bound : rest <= worth (context ++ [x]) * / share ^ fewer) by exact (IH (context ++ [x])).
           assert ((1 - a) * after <= / share ^ fewer * ((1 - a) * after)).
           { rewrite <- (Rmult_1_l ((1 - a) * after)) at 1.
             apply Rmult_le_compat_r; [apply Rmult_le_pos; lra | assumption]. }
           apply Rmult_le_compat_l with (r := a) in bound; [| lra].
           rewrite Rmult_plus_distr_l; apply Rplus_le_compat; [assumption |].
           apply Rle_trans with (1 := bound); apply Req_le.
           rewrite (Rmult_comm (/ share ^ fewer)), Rmult_assoc; reflexivity.
      * rewrite (steady context); fold p; cbn [pow].
        pose proof (lenient_mean context (fun y => worth (context ++ [y])) (fun y => above _)) as bound.
        cbn zeta in bound; fold p q after in bound.
        replace (mean size p (fun x => worth (context ++ [x])) / (share * share ^ fewer))
          with (/ share ^ fewer * (mean size p (fun x => worth (context ++ [x])) / share)) by (field; lra).
        apply Rmult_le_compat_l; [lra | assumption].
    + cbn; to_reals; pose proof (steady context) as same; specialize (above context).
      assert (larger' : 1 <= / (share * share ^ fewer)) by (rewrite <- Rinv_1; apply Rinv_le_contravar; cbn in *; lra).
      apply Rmult_le_compat_l with (r := worth context) in larger'; [| assumption].
      unfold Rdiv; rewrite Rmult_1_l, Rplus_0_r, <- same; lra.
Qed.

Lemma decode_nonneg count context worth :
  (forall long, 0 <= worth long) -> 0 <= decode size target count context worth.
Proof using target_model.
  intros above; revert context; induction count as [| fewer IH]; intros; cbn; [apply above |].
  apply sum_nonneg; intros; apply Rmult_le_pos; [apply target_model | apply IH].
Qed.

Theorem lenience_text_bound longer most context tokens :
  probability size target (lenience_round share size target drawn longer most) context tokens
    <= joint target context tokens / share ^ most.
Proof using target_model drawn_model share_range.
  rewrite <- (completed_joint size target target_model).
  apply lenience_worth; [now apply completed_follows |].
  intros other; apply decode_nonneg; intros long; unfold is_text; destruct list_eq_dec; to_reals; lra.
Qed.

End LenientChain.

(** ** The frontier: refusals plus error are at least the distance of draft and target *)
Section Frontier.
Variables (size : nat) (p q : row (num := R)).
Hypothesis p_law : is_law size p.
Hypothesis q_law : is_law size q.

(** Any rule for one drafted token: keep x with some probability; otherwise draw from some row, which may depend on x. *)
Variable keeps : row (num := R).
Variable instead : nat -> row (num := R).
Hypothesis keeps_range : forall x, 0 <= keeps x <= 1.
Hypothesis instead_law : forall x, is_law size (instead x).

Definition rule_refused : R := mean size q (fun x => 1 - keeps x).
Definition rule_output : row := fun y => q y * keeps y + mean size q (fun x => (1 - keeps x) * instead x y).

Lemma total_variation_triangle (a b c : row) :
  total_variation size a c <= total_variation size a b + total_variation size b c.
Proof using.
  unfold total_variation.
  enough (sum size (fun x => Rabs (a x - c x))
          <= sum size (fun x => Rabs (a x - b x)) + sum size (fun x => Rabs (b x - c x))) by lra.
  rewrite <- sum_plus; apply sum_le; intros; cases; lra.
Qed.

Lemma total_variation_symmetric (a b : row) : total_variation size a b = total_variation size b a.
Proof using. unfold total_variation; f_equal; apply sum_ext; intros; cases; lra. Qed.

Lemma mean_nonneg (f : row) : (forall x, 0 <= f x) -> 0 <= mean size q f.
Proof using q_law. intros above; apply sum_nonneg; intros x _; apply Rmult_le_pos; [apply q_law | apply above]. Qed.

(** Only refusals move the output away from the draft. *)
Theorem refused_moves_output : total_variation size rule_output q <= rule_refused.
Proof using q_law keeps_range instead_law.
  unfold total_variation.
  enough (sum size (fun y => Rabs (rule_output y - q y))
    <= sum size (fun y => q y * (1 - keeps y) + mean size q (fun x => (1 - keeps x) * instead x y))) as bound.
  - rewrite sum_plus in bound.
    assert (exchange : sum size (fun y => mean size q (fun x => (1 - keeps x) * instead x y)) = rule_refused).
    { unfold mean; rewrite <- sum_exchange; apply sum_ext; intros x _; to_reals.
      rewrite (sum_ext _ _ (fun y => q x * (1 - keeps x) * instead x y)) by (intros; ring).
      rewrite sum_factor, (total _ _ (instead_law x)); ring. }
    rewrite exchange in bound; unfold rule_refused, mean in *; to_reals; lra.
  - apply sum_le; intros y _; unfold rule_output.
    assert (0 <= mean size q (fun x => (1 - keeps x) * instead x y)).
    { apply mean_nonneg; intros x; specialize (keeps_range x).
      apply Rmult_le_pos; [lra | apply instead_law]. }
    assert (0 <= q y * (1 - keeps y)) by (specialize (keeps_range y); apply Rmult_le_pos; [apply q_law | lra]).
    unfold Rabs; destruct (Rcase_abs _); lra.
Qed.

Theorem refused_plus_error :
  total_variation size p q <= rule_refused + total_variation size rule_output p.
Proof using q_law keeps_range instead_law.
  pose proof (total_variation_triangle p rule_output q) as triangle.
  rewrite (total_variation_symmetric p rule_output) in triangle; pose proof refused_moves_output; lra.
Qed.

(** A rule that is lossless refuses at least as often as rejection. *)
Theorem lossless_refuses_enough :
  (forall y, rule_output y = p y) -> refused size p q <= rule_refused.
Proof using p_law q_law keeps_range instead_law.
  intros same; rewrite (refused_is_total_variation size p q p_law q_law).
  enough (total_variation size rule_output p = 0) by (pose proof refused_plus_error; lra).
  unfold total_variation; rewrite sum_zero; [lra |]; intros y _; rewrite same; cases; lra.
Qed.

End Frontier.
