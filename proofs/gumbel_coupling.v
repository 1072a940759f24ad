(** Gumbel coupling: draft and target race with the same clocks (Daliri, Musco, Suresh 2024).

    Three things. The text is the one that the target decides alone, whatever was drafted: no probability is needed for
    that. A race of exponential clocks decides a row's token with the row's law. And two rows that race with the same
    clocks agree with the probability of the paper, which lies between (1 - TV) / (1 + TV) and 1 - TV.

    Token x has a clock that rings at an exponential time E(x), independent of the others; a row decides for the token
    with the least E(x) / p(x). (With Gumbel noise G = - log E that is the largest log p(x) + G(x).) That the clocks are
    independent enters as the product of their survivals, and a probability is the integral of its density over time. *)

From Coq Require Import Reals Lra Lia List Arith FunctionalExtensionality.
From Specproof Require Export target_walk.
From Specproof.spec Require Export coupling.

(** ** The text *)
Section Text.

(** With the noise given, the target's decision is a function of the text. *)
Variable decide : text -> token.

(** What the target writes alone. *)
Fixpoint written (count : nat) (context : text) : text :=
  match count with
  | O => context
  | S fewer => written fewer (context ++ [decide context])
  end.

(** What a round commits: the decisions as long as they were drafted, and the first that was not. *)
Fixpoint follow (context : text) (children : tree) : text :=
  match children with
  | leaf => context ++ [decide context]
  | node x below younger =>
      if (x =? decide context)%nat then follow (context ++ [x]) below else follow context younger
  end.

Theorem follow_is_written context children :
  exists count, (1 <= count)%nat /\ follow context children = written count context.
Proof using.
  revert context; induction children as [| x below IHb younger IHy]; intros context; cbn.
  - now exists 1%nat.
  - destruct (Nat.eqb_spec x (decide context)) as [-> |]; [| apply IHy].
    destruct (IHb (context ++ [decide context])) as (count & _ & same); exists (S count); split; [lia | assumption].
Qed.

(** Any number of rounds; the drafts may know the noise, even all of it. *)
Fixpoint follow_all (context : text) (drafts : list tree) : text :=
  match drafts with
  | [] => context
  | children :: later => follow_all (follow context children) later
  end.

Lemma written_more a b context : written b (written a context) = written (a + b) context.
Proof using. revert context; induction a as [| n IH]; intros; cbn; auto. Qed.

Theorem rounds_are_written context drafts :
  exists count, (length drafts <= count)%nat /\ follow_all context drafts = written count context.
Proof using.
  revert context; induction drafts as [| children later IH]; intros context; cbn.
  - now exists 0%nat.
  - destruct (follow_is_written context children) as (here & some & same).
    destruct (IH (follow context children)) as (more & enough_ & rest).
    exists (here + more)%nat; split; [lia | rewrite rest, same; apply written_more].
Qed.

Lemma nothing_reached size (target : model) children (worth : text -> R) : forall context rest,
  value size (walk_from size target context 0 rest children) worth = 0.
Proof using.
  induction children as [| x below IHb younger IHy]; intros; cbn; [to_reals; ring |].
  rewrite value_app; to_reals; rewrite Rmult_0_l, IHb, IHy; ring.
Qed.

(** And it is what the rule's law says: the target walk on the decisions, as one-hot rows. *)
Theorem walk_on_decisions size context children (worth : text -> R) :
  (forall other, (decide other < size)%nat) ->
  value size (walk size (fun other => point (decide other)) context children) worth = worth (follow context children).
Proof using.
  intros inside; set (rows := fun other => point (decide other) : row (num := R)).
  assert (at_point : forall here (f : row), (here < size)%nat -> mean size (point here) f = f here).
  { intros here f below; unfold mean; rewrite (sum_at _ _ here); [| assumption |]; unfold point.
    - rewrite Nat.eqb_refl; to_reals; ring.
    - intros x other; apply Nat.eqb_neq in other; rewrite other; to_reals; ring. }
  enough (all : forall reached rest,
    ((forall x, rest x = point (decide context) x) ->
      value size (walk_from size rows context reached rest children) worth = reached * worth (follow context children)) /\
    ((forall x, rest x = 0) -> value size (walk_from size rows context reached rest children) worth = 0)).
  { unfold walk; rewrite (proj1 (all 1 _)) by reflexivity; ring. }
  revert context; induction children as [| x below IHb younger IHy]; intros context reached rest; cbn [walk_from follow].
  - split; intros is.
    + cbn [value stop next kept]; rewrite (sum_ext _ rest (point (decide context))) by auto.
      rewrite (total _ _ (point_law size _ (inside context))); to_reals.
      unfold normalised, if_positive; rewrite (sum_ext _ rest (point (decide context))) by auto.
      rewrite (total _ _ (point_law size _ (inside context))), positive_true by lra.
      unfold mean; rewrite (sum_ext _ _ (fun y => point (decide context) y * worth (context ++ [y])))
        by (intros; to_reals; rewrite is; field).
      match goal with |- context [sum size ?f] =>
        change (sum size f) with (mean size (point (decide context)) (fun y => worth (context ++ [y]))) end.
      rewrite at_point by auto; ring.
    + cbn [value stop next kept]; rewrite (sum_zero size rest) by auto; to_reals; ring.
  - split; intros is; rewrite value_app.
    + rewrite is; unfold point at 1; destruct (Nat.eqb_spec x (decide context)) as [-> | other].
      * rewrite (proj1 (IHb _ _ _)) by reflexivity.
        rewrite (proj2 (IHy _ _ _)); [to_reals; ring |].
        intros y; unfold emptied; rewrite is; unfold point; destruct (y =? decide context)%nat; reflexivity.
      * to_reals; rewrite Rmult_0_r, nothing_reached.
        rewrite (proj1 (IHy _ _ _)); [ring |].
        intros y; unfold emptied; destruct (Nat.eqb_spec y x) as [-> |]; [| apply is].
        unfold point; apply Nat.eqb_neq in other; now rewrite other.
    + rewrite is; to_reals; rewrite Rmult_0_r, nothing_reached, (proj2 (IHy _ _ _)); [ring |].
      intros y; unfold emptied; destruct (y =? x)%nat; auto.
Qed.

End Text.

(** ** The race *)

(** The integral of f over all times from 0 on: an antiderivative, and how far it climbs. *)
Definition integral (f : R -> R) (value : R) : Prop :=
  exists F, (forall t, derivable_pt_lim F t (f t)) /\
  forall eps, 0 < eps -> exists late, forall t, late <= t -> Rabs (F t - F 0 - value) < eps.

(** There is one such value. *)
Lemma integral_unique f a b : integral f a -> integral f b -> a = b.
Proof.
  intros (F & slope & near) (G & slope' & near').
  pose (gap := fun t => F t - G t).
  assert (flat : forall t, derivable_pt_lim gap t 0).
  { intros t; replace 0 with (f t - f t) by ring; now apply (derivable_pt_lim_minus F G). }
  assert (constant gap) as same.
  { apply null_derivative_1 with (pr := fun t => exist _ 0 (flat t)); reflexivity. }
  destruct (Req_dec a b) as [| other]; [assumption | exfalso].
  assert (0 < Rabs (a - b) / 2) as eps by (pose proof (Rabs_pos_lt (a - b)); lra).
  destruct (near _ eps) as [late close], (near' _ eps) as [late' close'].
  specialize (close (Rmax late late') (Rmax_l _ _)); specialize (close' (Rmax late late') (Rmax_r _ _)).
  pose proof (same (Rmax late late') 0) as level; unfold gap in level.
  revert close close'; cases; lra.
Qed.

(** The chance that the clocks ring no sooner than [rates x] times t. *)
Fixpoint none_sooner (size : nat) (rates : row (num := R)) (t : R) : R :=
  match size with
  | O => 1
  | S smaller => none_sooner smaller rates t * exp (- (rates smaller * t))
  end.

Lemma none_sooner_exp size rates t : none_sooner size rates t = exp (- (sum size rates * t)).
Proof.
  induction size as [| n IH]; cbn.
  - rewrite Rmult_0_l, Ropp_0, exp_0; reflexivity.
  - rewrite IH, <- exp_plus; f_equal; to_reals; ring.
Qed.

Lemma exponential_integral rate : 0 < rate -> integral (fun t => exp (- (rate * t))) (1 / rate).
Proof.
  intros some; exists (fun t => - exp (- (rate * t)) / rate); split.
  - intros t.
    replace (exp (- (rate * t))) with (- (exp (- (rate * t)) * (- (rate * 1))) * / rate) by (field; lra).
    assert (inner : derivable_pt_lim (fun s => - (rate * s)) t (- (rate * 1))).
    { apply (derivable_pt_lim_opp (fun s => rate * s)); apply (derivable_pt_lim_scal id), derivable_pt_lim_id. }
    pose proof (derivable_pt_lim_comp _ exp t _ _ inner (derivable_pt_lim_exp _)) as outer.
    apply derivable_pt_lim_opp in outer.
    apply (derivable_pt_lim_scal _ (/ rate)) in outer.
    match goal with outer : derivable_pt_lim ?g _ ?l |- derivable_pt_lim ?h _ ?m =>
      replace m with l by ring;
      intros eps small; destruct (outer eps small) as [delta close]; exists delta; intros step nonzero near;
      specialize (close step nonzero near) end.
    unfold mult_real_fct, opp_fct, comp in close.
    match goal with close : Rabs ?a < _ |- Rabs ?b < _ => replace b with a; [exact close | f_equal] end.
    unfold Rdiv; ring.
  - (* exp(-rate t) <= 1 / (1 + rate t) is as small as one likes *)
    intros eps small; exists (1 / (eps * rate * rate)); intros t late.
    assert (0 < eps * rate * rate) by (repeat apply Rmult_lt_0_compat; lra).
    assert (0 < t).
    { apply Rlt_le_trans with (2 := late); unfold Rdiv; rewrite Rmult_1_l; now apply Rinv_0_lt_compat. }
    replace (- exp (- (rate * t)) / rate - - exp (- (rate * 0)) / rate - 1 / rate) with (- (exp (- (rate * t)) / rate))
      by (rewrite Rmult_0_r, Ropp_0, exp_0; field; lra).
    rewrite Rabs_Ropp, Rabs_pos_eq
      by (apply Rmult_le_pos; [apply Rlt_le, exp_pos | apply Rlt_le, Rinv_0_lt_compat; lra]).
    assert (0 < rate * t) by (apply Rmult_lt_0_compat; lra).
    pose proof (exp_ineq1 (rate * t)) as large; assert (1 + rate * t < exp (rate * t)) by (apply large; lra).
    assert (product : exp (- (rate * t)) * exp (rate * t) = 1) by (rewrite <- exp_plus, <- exp_0; f_equal; ring).
    pose proof (exp_pos (- (rate * t))).
    assert (1 <= eps * rate * rate * t).
    { apply Rmult_le_reg_r with (/ (eps * rate * rate)); [now apply Rinv_0_lt_compat |].
      replace (eps * rate * rate * t * / (eps * rate * rate)) with t by (field; repeat split; lra).
      unfold Rdiv in late; lra. }
    apply Rmult_lt_reg_r with rate; [assumption |].
    replace (exp (- (rate * t)) / rate * rate) with (exp (- (rate * t))) by (field; lra).
    apply Rmult_lt_reg_r with (rate * t); [assumption |]; nra.
Qed.

Section Race.
Variable size : nat.
Variables p q : row (num := R).
Hypothesis p_law : is_law size p.
Hypothesis q_law : is_law size q.

Lemma inside_of i : p i <> 0 -> (i < size)%nat.
Proof using p_law.
  intros some; destruct (Nat.lt_ge_cases i size); [assumption | now rewrite (outside _ _ p_law i) in some].
Qed.

(** Row p decides for i, at time t of its clock: the clock of x then rings no sooner than t p(x) / p(i). *)
Definition race (i : token) : R -> R := none_sooner size (fun x => p x / p i).

Theorem race_has_the_law_of_the_row i : 0 < p i -> integral (race i) (p i).
Proof using p_law.
  intros some; assert (rate : sum size (fun x => p x / p i) = 1 / p i).
  { rewrite (sum_ext _ _ (fun x => / p i * p x)) by (intros; field; lra).
    rewrite sum_factor, (total _ _ p_law); field; lra. }
  replace (p i) with (1 / (1 / p i)) by (field; lra).
  replace (race i) with (fun t => exp (- ((1 / p i) * t))).
  - apply exponential_integral; unfold Rdiv; rewrite Rmult_1_l; now apply Rinv_0_lt_compat.
  - apply functional_extensionality; intros t; unfold race; now rewrite none_sooner_exp, rate.
Qed.

(** Both rows decide for i. *)
Definition race_of_both (i : token) : R -> R := none_sooner size (fun x => Rmax (p x / p i) (q x / q i)).

Lemma slowest_bounds i : 0 < p i -> 0 < q i ->
  1 / p i <= slowest size p q i /\ 1 / q i <= slowest size p q i /\
  Rmin (p i) (q i) * slowest size p q i <= 1 + total_variation size p q.
Proof using p_law q_law.
  intros some some'; unfold slowest; repeat split.
  - rewrite <- (total _ _ p_law) at 1; unfold Rdiv; rewrite Rmult_comm, <- sum_factor; apply sum_le; intros x _; to_reals.
    rewrite maximum_is_Rmax; apply Rle_trans with (2 := Rmax_l _ _); apply Req_le; unfold Rdiv; ring.
  - rewrite <- (total _ _ q_law) at 1; unfold Rdiv; rewrite Rmult_comm, <- sum_factor; apply sum_le; intros x _; to_reals.
    rewrite maximum_is_Rmax; apply Rle_trans with (2 := Rmax_r _ _); apply Req_le; unfold Rdiv; ring.
  - rewrite <- (excess_is_total_variation size p q p_law q_law), <- (total _ _ q_law), <- sum_plus, <- sum_factor.
    apply sum_le; intros x _; to_reals.
    pose proof (nonneg _ _ p_law x); pose proof (nonneg _ _ q_law x).
    assert (p i * (p x / p i) = p x) by (field; lra); assert (q i * (q x / q i) = q x) by (field; lra).
    assert (0 <= p x / p i) by (apply Rmult_le_pos; [| apply Rlt_le, Rinv_0_lt_compat]; assumption).
    assert (0 <= q x / q i) by (apply Rmult_le_pos; [| apply Rlt_le, Rinv_0_lt_compat]; assumption).
    unfold excess; to_reals; rewrite !maximum_is_Rmax; unfold Rmax, Rmin.
    destruct (Rle_dec (p i) (q i)), (Rle_dec (p x / p i) (q x / q i)), (Rle_dec (p x - q x) 0); nra.
Qed.

Theorem race_of_both_integral i : 0 < p i -> 0 < q i -> integral (race_of_both i) (1 / slowest size p q i).
Proof using p_law q_law.
  intros some some'; destruct (slowest_bounds i some some') as [above _].
  replace (race_of_both i) with (fun t => exp (- (slowest size p q i * t))).
  - apply exponential_integral; apply Rlt_le_trans with (2 := above).
    unfold Rdiv; rewrite Rmult_1_l; now apply Rinv_0_lt_compat.
  - apply functional_extensionality; intros t; unfold race_of_both; rewrite none_sooner_exp; do 3 f_equal.
    unfold slowest; apply sum_ext; intros; to_reals; now rewrite maximum_is_Rmax.
Qed.

(** ** How often they agree: never more than rejection accepts, and not much less *)
Lemma match_term i :
  Rmin (p i) (q i) / (1 + total_variation size p q)
    <= if_positive (p i * q i) (1 / slowest size p q i) 0 <= Rmin (p i) (q i).
Proof using p_law q_law.
  pose proof (nonneg _ _ p_law i) as above; pose proof (nonneg _ _ q_law i) as above'.
  assert (0 <= total_variation size p q) as distance.
  { unfold total_variation; assert (0 <= sum size (fun x => Rabs (p x - q x)))
      by (apply sum_nonneg; intros; apply Rabs_pos); lra. }
  unfold if_positive; destruct (Rle_lt_dec (p i * q i) 0).
  - rewrite positive_false by assumption.
    assert (p i = 0 \/ q i = 0) as [none | none] by (apply Rmult_integral; nra);
      (assert (Rmin (p i) (q i) = 0) as -> by (rewrite none; cases; lra)); unfold Rdiv; lra.
  - rewrite positive_true by assumption.
    assert (0 < p i) as some by (destruct above as [| none]; [assumption | rewrite <- none in *; lra]).
    assert (0 < q i) as some' by (destruct above' as [| none]; [assumption | rewrite <- none in *; lra]).
    destruct (slowest_bounds i some some') as (least & least' & most).
    set (rate := slowest size p q i) in *.
    assert (0 < 1 / p i) by (unfold Rdiv; rewrite Rmult_1_l; now apply Rinv_0_lt_compat).
    assert (0 < rate) by lra.
    assert (back : 1 / rate * rate = 1) by (field; lra).
    split.
    + apply Rmult_le_reg_r with rate; [assumption |]; rewrite back.
      apply Rmult_le_reg_r with (1 + total_variation size p q); [lra |].
      replace (Rmin (p i) (q i) / (1 + total_variation size p q) * rate * (1 + total_variation size p q))
        with (Rmin (p i) (q i) * rate) by (field; lra); lra.
    + apply Rmult_le_reg_r with rate; [assumption |]; rewrite back.
      assert (1 <= p i * rate) by (apply Rmult_le_compat_l with (r := p i) in least; [| lra];
        replace (p i * (1 / p i)) with 1 in least by (field; lra); assumption).
      assert (1 <= q i * rate) by (apply Rmult_le_compat_l with (r := q i) in least'; [| lra];
        replace (q i * (1 / q i)) with 1 in least' by (field; lra); assumption).
      cases; assumption.
Qed.

Theorem match_at_most : match_probability size p q <= 1 - total_variation size p q.
Proof using p_law q_law.
  rewrite <- (refused_is_total_variation size p q p_law q_law), (refused_total size p q p_law q_law).
  replace (1 - (1 - sum size (fun x => Rmin (p x) (q x)))) with (sum size (fun x => Rmin (p x) (q x))) by ring.
  apply sum_le; intros i _; apply match_term.
Qed.

Theorem match_at_least :
  (1 - total_variation size p q) / (1 + total_variation size p q) <= match_probability size p q.
Proof using p_law q_law.
  rewrite <- (refused_is_total_variation size p q p_law q_law) at 1; rewrite (refused_total size p q p_law q_law).
  replace (1 - (1 - sum size (fun x => Rmin (p x) (q x)))) with (sum size (fun x => Rmin (p x) (q x))) by ring.
  unfold Rdiv; rewrite Rmult_comm, <- sum_factor; apply sum_le; intros i _.
  rewrite Rmult_comm; apply match_term.
Qed.

End Race.
