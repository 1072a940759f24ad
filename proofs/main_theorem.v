(** The main theorem: one drafted token, accepted with min(1, p/q), else replaced from (p - q)⁺, has the law p.

    Leviathan et al. 2023, appendix A.1; Chen et al. 2023, theorem 1. For every vocabulary, every target row [p] and every
    draft row [q]; masses may be zero and supports disjoint. The steps are those of the usual proof. *)

From Coq Require Import Reals Lra List Arith FunctionalExtensionality.
From Specproof Require Export sums.
From Specproof.spec Require Import rejection.

Section MainTheorem.
Variable size : nat.
Variables p q : row (num := R).
Hypothesis p_law : is_law size p.
Hypothesis q_law : is_law size q.

(** The algorithm: draw x from q; keep it with probability [accept x]; else draw from [residual]. *)
Definition accept : row := fun x => minimum 1 (p x / q x).
Definition residual : row := normalised size (excess p q) p.
Definition accepted : R := mean size q accept.
Definition refused : R := mean size q (fun x => 1 - accept x).
Definition output : row := fun x => q x * accept x + refused * residual x.

(** Half the sum of the differences. *)
Definition total_variation (a b : row) : R := sum size (fun x => Rabs (a x - b x)) / 2.

(** ** Step 1: x is drafted and accepted with probability min(p(x), q(x)).
    Where q(x) = 0 it is never drafted, and whatever p(x)/0 may be is multiplied by 0. *)
Theorem accepted_mass x : q x * accept x = Rmin (p x) (q x).
Proof using p_law q_law.
  unfold accept; destruct (nonneg _ _ q_law x) as [some | none].
  - (* q(x) > 0: either p >= q and the ratio is capped, or p < q and q cancels *)
    assert (back : q x * (p x / q x) = p x) by (field; lra).
    rewrite minimum_is_Rmin; unfold Rmin; to_reals.
    destruct (Rle_dec 1 (p x / q x)) as [more | less], (Rle_dec (p x) (q x)); nra.
  - rewrite <- none; pose proof (nonneg _ _ p_law x); cases; lra.
Qed.

(** ** Step 2: a rejection has probability 1 - sum of min(p, q). *)
Theorem accepted_total : accepted = sum size (fun x => Rmin (p x) (q x)).
Proof using p_law q_law. apply sum_ext; intros; apply accepted_mass. Qed.

Theorem refused_total : refused = 1 - sum size (fun x => Rmin (p x) (q x)).
Proof using p_law q_law.
  rewrite <- accepted_total; unfold refused; now rewrite mean_complement.
Qed.

(** ** Step 3a: the part that both give and the part that only the target gives make up the target.
    And the normalising constant Z is the probability of a rejection. *)
Theorem minimum_plus_excess x : Rmin (p x) (q x) + excess p q x = p x.
Proof using. unfold excess; to_reals; cases; lra. Qed.

Theorem excess_total : sum size (excess p q) = 1 - sum size (fun x => Rmin (p x) (q x)).
Proof using p_law.
  rewrite <- (total _ _ p_law), <- sum_minus; apply sum_ext; intros x _.
  pose proof (minimum_plus_excess x); lra.
Qed.

Theorem excess_is_refused : sum size (excess p q) = refused.
Proof using p_law q_law. now rewrite excess_total, refused_total. Qed.

(** Both are the total variation distance. *)
Theorem excess_is_total_variation : sum size (excess p q) = total_variation p q.
Proof using p_law q_law.
  unfold total_variation.
  rewrite (sum_ext _ (fun x => Rabs (p x - q x)) (fun x => 2 * excess p q x + (q x - p x))).
  - rewrite sum_plus, sum_factor, sum_minus, (total _ _ p_law), (total _ _ q_law); lra.
  - intros; unfold excess; to_reals; cases; lra.
Qed.

Theorem refused_is_total_variation : refused = total_variation p q.
Proof using p_law q_law. now rewrite <- excess_is_refused, excess_is_total_variation. Qed.

(** ** Step 3b: x is drawn after a rejection with probability (p - q)⁺(x); Z cancels. *)
Lemma excess_off x : (size <= x)%nat -> excess p q x = 0.
Proof using p_law q_law. apply excess_outside; [apply q_law | apply p_law]. Qed.

Theorem refused_mass x : refused * residual x = excess p q x.
Proof using p_law q_law.
  rewrite <- excess_is_refused; apply sum_times_normalised;
    [intros; apply excess_nonneg | apply excess_off | apply p_law].
Qed.

(** ** Step 3c: together, P(output = x) = min + (p - q)⁺ = p(x). *)
Theorem single_draft_lossless x : output x = p x.
Proof using p_law q_law. unfold output; now rewrite accepted_mass, refused_mass, minimum_plus_excess. Qed.

(** The algorithm is a proper one: what it calls probabilities and rows are such. *)
Theorem residual_law : is_law size residual.
Proof using p_law q_law. apply normalised_law; auto using excess_nonneg, excess_off. Qed.

Theorem accept_is_probability x : 0 < q x -> 0 <= accept x <= 1.
Proof using p_law.
  intros some; pose proof (nonneg _ _ p_law x).
  assert (0 <= p x / q x) by (apply Rmult_le_pos; [| apply Rlt_le, Rinv_0_lt_compat]; assumption).
  unfold accept; cases; lra.
Qed.

(** The same in means, as longer proofs use it: draw, judge, and ask what the token is worth. *)
Theorem single_draft_mean (worth : row) :
  mean size q (fun x => accept x * worth x + (1 - accept x) * mean size residual worth) = mean size p worth.
Proof using p_law q_law.
  transitivity (mean size (fun x => q x * accept x) worth + refused * mean size residual worth).
  - unfold refused, mean.
    rewrite (Rmult_comm (sum size (fun x => (q x * (1 - accept x))%R))), <- sum_factor, <- sum_plus.
    apply sum_ext; intros; to_reals; ring.
  - rewrite <- mean_scaled, <- mean_rows_plus; apply sum_ext; intros x _.
    unfold scaled; to_reals; f_equal; apply single_draft_lossless.
Qed.

(** ** The extremes *)

(** A perfect draft is never refused. *)
Theorem perfect_draft : p = q -> refused = 0.
Proof using p_law q_law.
  intros same; rewrite <- excess_is_refused; apply sum_zero; intros x _.
  rewrite same; unfold excess; to_reals; cases; lra.
Qed.

(** Disjoint supports: always refused, and the residual is the target. *)
Theorem disjoint_draft : (forall x, p x = 0 \/ q x = 0) -> refused = 1 /\ forall x, residual x = p x.
Proof using p_law q_law.
  intros apart; assert (all : refused = 1).
  - rewrite refused_total, sum_zero; [lra |]; intros x _.
    pose proof (nonneg _ _ p_law x); pose proof (nonneg _ _ q_law x); destruct (apart x); cases; lra.
  - split; [assumption |]; intros x; pose proof (refused_mass x) as mass; rewrite all, Rmult_1_l in mass.
    rewrite mass; unfold excess; to_reals; pose proof (nonneg _ _ p_law x); pose proof (nonneg _ _ q_law x).
    destruct (apart x); cases; lra.
Qed.

End MainTheorem.

(** ** This is what the specification says of one drafted token *)
Theorem rejection_of_one_token size (target drawn : model) context x (worth : text -> R) :
  let p := target context in
  let q := drawn context in
  let after := fun y => worth (context ++ [y]) in
  is_model size target ->
  value size (rejection size target drawn context 1 [x]) worth =
    (1 - accept p q x) * mean size (residual size p q) after
    + accept p q x * mean size (target (context ++ [x])) (fun y => worth ((context ++ [x]) ++ [y])).
Proof. intros; cbn; unfold accept, residual, p, q, after; to_reals; ring. Qed.
