(** Nothing accepts more: of all ways to draw a token x from q and a token y from p together, none has x = y more often
    than the sum of min(p, q); and rejection reaches it. (The maximal coupling; Leviathan et al. 2023, section 3.) *)

From Coq Require Import Reals Lra List Arith.
From Specproof Require Export main_theorem.

Section Optimality.
Variable size : nat.
Variables p q : row (num := R).
Hypothesis p_law : is_law size p.
Hypothesis q_law : is_law size q.

(** [together x y] is the probability that x was drafted and y came out. Whatever a rule with one drafted token does,
    with any randomness of its own, it has such a table. *)
Record coupling (together : nat -> row (num := R)) : Prop := {
  never_negative : forall x y, 0 <= together x y;
  draft_side : forall x, (x < size)%nat -> sum size (together x) = q x;
  output_side : forall y, (y < size)%nat -> sum size (fun x => together x y) = p y;
}.

Theorem no_coupling_accepts_more together :
  coupling together -> sum size (fun x => together x x) <= sum size (fun x => Rmin (p x) (q x)).
Proof using.
  intros [above left right]; apply sum_le; intros x inside; apply Rmin_glb.
  - rewrite <- (right x inside); apply (term_le_sum size (fun y => together y x)); auto.
  - rewrite <- (left x inside); apply term_le_sum; auto.
Qed.

(** The table of rejection: x stays, or comes out instead of some refused token. *)
Definition rejection_table (x : nat) : row (num := R) := fun y =>
  q x * (accept p q x * point x y + (1 - accept p q x) * residual size p q y).

Theorem rejection_is_coupling : coupling rejection_table.
Proof using p_law q_law.
  split; unfold rejection_table.
  - intros x y; destruct (nonneg _ _ q_law x) as [some | none]; [| rewrite <- none; lra].
    pose proof (accept_is_probability size _ _ p_law x some).
    pose proof (nonneg _ _ (residual_law size p q p_law q_law) y).
    apply Rmult_le_pos; [lra |].
    apply Rplus_le_le_0_compat; apply Rmult_le_pos; try lra; unfold point; destruct (y =? x); to_reals; lra.
  - intros x inside; rewrite sum_factor, sum_plus, 2 sum_factor.
    rewrite (total _ _ (point_law size x inside)), (total _ _ (residual_law size p q p_law q_law)); ring.
  - intros y inside; rewrite <- (mean_indicator size p y p_law), <- (single_draft_mean size p q p_law q_law).
    apply sum_ext; intros x _; to_reals.
    rewrite (mean_indicator _ _ y (residual_law size p q p_law q_law)).
    unfold point; rewrite (Nat.eqb_sym y x); ring.
Qed.

(** It keeps x with what the minimum leaves: residual and minimum are never both positive. *)
Theorem rejection_accepts_most :
  sum size (fun x => rejection_table x x) = sum size (fun x => Rmin (p x) (q x)).
Proof using p_law q_law.
  apply sum_ext; intros x _; unfold rejection_table, point; rewrite Nat.eqb_refl; to_reals.
  replace (q x * _) with (q x * accept p q x + q x * (1 - accept p q x) * residual size p q x) by ring.
  rewrite (accepted_mass size p q p_law q_law).
  enough (q x * (1 - accept p q x) * residual size p q x = 0) by lra.
  pose proof (accepted_mass size p q p_law q_law x) as kept.
  pose proof (refused_mass size p q p_law q_law x) as replaced.
  unfold excess in replaced; to_reals.
  destruct (Rle_dec (q x) (p x)) as [less | more].
  - replace (q x * (1 - accept p q x)) with 0; [ring |].
    replace (q x * (1 - accept p q x)) with (q x - q x * accept p q x) by ring; rewrite kept; cases; lra.
  - (* nothing is left at x, and something is refused: the residual is 0 there *)
    assert (refused size p q * residual size p q x = 0) as none by (rewrite replaced; cases; lra).
    apply Rmult_integral in none as [never | ->]; [| ring].
    exfalso; pose proof (excess_is_refused size p q p_law q_law) as same.
    rewrite never in same.
    assert (equal : sum size (fun y => Rmin (p y) (q y)) = 1) by (pose proof (excess_total size p q p_law); lra).
    assert (smaller : sum size (fun y => q y - Rmin (p y) (q y)) = 0)
      by (rewrite sum_minus, (total _ _ q_law); lra).
    destruct (Nat.lt_ge_cases x size) as [inside | off].
    + pose proof (term_le_sum size (fun y => q y - Rmin (p y) (q y)) x) as bound; cbn beta in bound.
      rewrite smaller in bound.
      assert (q x - Rmin (p x) (q x) <= 0) by (apply bound; [intros; cases; lra | assumption]).
      cases; lra.
    + rewrite (outside _ _ q_law x off), (outside _ _ p_law x off) in more; lra.
Qed.

End Optimality.
