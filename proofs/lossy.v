(** What lossy rules still promise, and what nobody can have for nothing. *)

From Coq Require Import Reals Lra Lia List Arith.
From Specproof Require Export main_theorem.
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
