(** Finite sums over the reals, of any length, and rows. What every theorem stands on; nothing here is surprising. *)

From Coq Require Import Reals Lra Lia List Arith FunctionalExtensionality.
From Specproof.spec Require Export numbers laws.
Export ListNotations.
#[global] Open Scope R_scope.

(** From the abstract numbers to the reals' own names. *)
Ltac to_reals := cbn [zero one add sub mul div positive reals] in *.

Lemma positive_true (a : R) : 0 < a -> positive a = true.
Proof. intros; cbn; destruct (Rlt_dec 0 a); [reflexivity | lra]. Qed.

Lemma positive_false (a : R) : a <= 0 -> positive a = false.
Proof. intros; cbn; destruct (Rlt_dec 0 a); [lra | reflexivity]. Qed.

Lemma minimum_is_Rmin (a b : R) : minimum a b = Rmin a b.
Proof.
  unfold minimum, if_positive; to_reals; unfold Rmin.
  destruct (Rlt_dec 0 (b - a)), (Rle_dec a b); lra.
Qed.

Lemma maximum_is_Rmax (a b : R) : maximum a b = Rmax a b.
Proof.
  unfold maximum, if_positive; to_reals; unfold Rmax.
  destruct (Rlt_dec 0 (b - a)), (Rle_dec a b); lra.
Qed.

(** Splits every minimum, maximum and absolute value of a goal into its two cases. *)
Ltac cases :=
  rewrite ?minimum_is_Rmin, ?maximum_is_Rmax in *; unfold Rmin, Rmax, Rabs in *;
  repeat match goal with
  | |- context [Rle_dec ?a ?b] => destruct (Rle_dec a b)
  | |- context [Rcase_abs ?a] => destruct (Rcase_abs a)
  | H : context [Rle_dec ?a ?b] |- _ => destruct (Rle_dec a b)
  | H : context [Rcase_abs ?a] |- _ => destruct (Rcase_abs a)
  end.

(** ** Sums *)

Lemma sum_ext size (f g : row) : (forall x, (x < size)%nat -> f x = g x) -> sum size f = sum size g.
Proof.
  induction size as [| n IH]; intros same; cbn; [reflexivity |].
  rewrite IH, same by auto with arith; reflexivity.
Qed.

Lemma sum_plus size (f g : row) : sum size (fun x => f x + g x) = sum size f + sum size g.
Proof. induction size as [| n IH]; cbn in *; [lra | rewrite IH; lra]. Qed.

Lemma sum_minus size (f g : row) : sum size (fun x => f x - g x) = sum size f - sum size g.
Proof. induction size as [| n IH]; cbn in *; [lra | rewrite IH; lra]. Qed.

Lemma sum_factor size a (f : row) : sum size (fun x => a * f x) = a * sum size f.
Proof. induction size as [| n IH]; cbn in *; [lra | rewrite IH; lra]. Qed.

Lemma sum_zero size (f : row) : (forall x, (x < size)%nat -> f x = 0) -> sum size f = 0.
Proof.
  induction size as [| n IH]; intros zeros; cbn; [reflexivity |].
  rewrite IH, zeros by auto with arith; lra.
Qed.

Lemma sum_le size (f g : row) : (forall x, (x < size)%nat -> f x <= g x) -> sum size f <= sum size g.
Proof.
  induction size as [| n IH]; intros below; cbn; [lra |].
  assert (sum n f <= sum n g) by (apply IH; intros; apply below; lia).
  specialize (below n (Nat.lt_succ_diag_r n)); lra.
Qed.

Lemma sum_nonneg size (f : row) : (forall x, (x < size)%nat -> 0 <= f x) -> 0 <= sum size f.
Proof. intros; rewrite <- (sum_zero size (fun _ => 0)) by reflexivity; apply sum_le; assumption. Qed.

(** Only one term counts. *)
Lemma sum_at size (f : row) here :
  (here < size)%nat -> (forall x, x <> here -> f x = 0) -> sum size f = f here.
Proof.
  induction size as [| n IH]; intros inside alone; cbn; [lia |].
  destruct (Nat.eq_dec n here) as [<- | other].
  - rewrite sum_zero by (intros; apply alone; lia); lra.
  - rewrite IH, (alone n) by (auto; lia); lra.
Qed.

(** Nonnegative terms are not above their sum; so where it is 0 they are. *)
Lemma term_le_sum size (f : row) x :
  (forall y, 0 <= f y) -> (x < size)%nat -> f x <= sum size f.
Proof.
  intros above; induction size as [| n IH]; intros inside; cbn; [lia |].
  destruct (Nat.eq_dec x n) as [-> | other].
  - enough (0 <= sum n f) by lra; apply sum_nonneg; auto.
  - assert (f x <= sum n f) by (apply IH; lia); specialize (above n); lra.
Qed.

Lemma sum_exchange size size' (f : nat -> row) :
  sum size (fun x => sum size' (f x)) = sum size' (fun y => sum size (fun x => f x y)).
Proof.
  induction size as [| n IH]; cbn; [now rewrite sum_zero |].
  to_reals; rewrite IH, <- sum_plus; reflexivity.
Qed.

(** ** Rows *)

(** A row is a law: nonnegative, nothing off the vocabulary, sum 1. Zero masses are welcome. *)
Record is_law (size : nat) (p : row (num := R)) : Prop := {
  nonneg : forall x, 0 <= p x;
  outside : forall x, (size <= x)%nat -> p x = 0;
  total : sum size p = 1;
}.

Definition is_model size (m : model (num := R)) : Prop := forall context, is_law size (m context).

Lemma mean_ext size (p : row) (f g : row) : (forall x, p x <> 0 -> f x = g x) -> mean size p f = mean size p g.
Proof.
  intros same; apply sum_ext; intros x _; to_reals.
  destruct (Req_dec (p x) 0) as [-> | some]; [lra | rewrite (same x some); reflexivity].
Qed.

Lemma mean_factor size a (p f : row) : mean size p (fun x => a * f x) = a * mean size p f.
Proof. unfold mean; rewrite <- sum_factor; apply sum_ext; intros; to_reals; ring. Qed.

Lemma mean_scaled size a (p f : row) : mean size (scaled a p) f = a * mean size p f.
Proof. unfold mean, scaled; rewrite <- sum_factor; apply sum_ext; intros; to_reals; ring. Qed.

Lemma mean_plus size (p f g : row) : mean size p (fun x => f x + g x) = mean size p f + mean size p g.
Proof. unfold mean; rewrite <- sum_plus; apply sum_ext; intros; to_reals; ring. Qed.

Lemma mean_rows_plus size (p q f : row) : mean size (fun x => p x + q x) f = mean size p f + mean size q f.
Proof. unfold mean; rewrite <- sum_plus; apply sum_ext; intros; to_reals; ring. Qed.

Lemma mean_const size p a : is_law size p -> mean size p (fun _ => a) = a.
Proof.
  intros law_p; unfold mean; rewrite (sum_ext _ _ (fun x => a * p x)) by (intros; to_reals; ring).
  rewrite sum_factor, (total _ _ law_p); ring.
Qed.

Lemma mean_complement size (p f : row) : is_law size p -> mean size p (fun x => 1 - f x) = 1 - mean size p f.
Proof.
  intros law_p; unfold mean; transitivity (sum size (fun x => p x - p x * f x)).
  - apply sum_ext; intros; to_reals; ring.
  - rewrite sum_minus, (total _ _ law_p); reflexivity.
Qed.

(** A mean under all-mass-here is the value there. *)
Lemma mean_indicator size p y : is_law size p -> mean size p (point y) = p y.
Proof.
  intros law_p; unfold mean, point; destruct (Nat.lt_ge_cases y size) as [inside | off].
  - rewrite (sum_at _ _ y); [rewrite Nat.eqb_refl; to_reals; ring | assumption |].
    intros x other; apply Nat.eqb_neq in other; rewrite other; to_reals; ring.
  - rewrite (outside _ _ law_p y off); apply sum_zero; intros x inside.
    replace (x =? y)%nat with false by (symmetry; apply Nat.eqb_neq; lia); to_reals; ring.
Qed.

Lemma point_law size here : (here < size)%nat -> is_law size (point here).
Proof.
  intros inside; split; unfold point; intros.
  - destruct (x =? here)%nat; to_reals; lra.
  - replace (x =? here)%nat with false by (symmetry; apply Nat.eqb_neq; lia); reflexivity.
  - rewrite (sum_at _ _ here); [now rewrite Nat.eqb_refl | assumption |].
    intros x other; apply Nat.eqb_neq in other; now rewrite other.
Qed.

(** ** Normalised rows *)

Lemma sum_normalised size (f fallback : row) :
  (forall x, 0 <= f x) -> sum size fallback = 1 -> sum size (normalised size f fallback) = 1.
Proof.
  intros above whole; unfold normalised, if_positive.
  destruct (Rle_lt_dec (sum size f) 0).
  - now rewrite positive_false.
  - rewrite positive_true by assumption.
    rewrite (sum_ext _ _ (fun x => / sum size f * f x)) by (intros; to_reals; field; lra).
    rewrite sum_factor; field; lra.
Qed.

Lemma normalised_law size (f fallback : row) :
  (forall x, 0 <= f x) -> (forall x, (size <= x)%nat -> f x = 0) -> is_law size fallback ->
  is_law size (normalised size f fallback).
Proof.
  intros above off [fine away whole]; split; [| | now apply sum_normalised];
    unfold normalised, if_positive; intros x; destruct (Rle_lt_dec (sum size f) 0);
    rewrite ?positive_false, ?positive_true by assumption; auto.
  - to_reals; apply Rmult_le_pos; [auto | apply Rlt_le, Rinv_0_lt_compat; assumption].
  - intros far; to_reals; rewrite (off x far); field; lra.
Qed.

(** The sum cancels: sum times normalised is the row, also where nothing is left. *)
Lemma sum_times_normalised size (f fallback : row) x :
  (forall y, 0 <= f y) -> (forall y, (size <= y)%nat -> f y = 0) ->
  (forall y, (size <= y)%nat -> fallback y = 0) ->
  sum size f * normalised size f fallback x = f x.
Proof.
  intros above off away; unfold normalised, if_positive.
  destruct (Rle_lt_dec (sum size f) 0).
  - rewrite positive_false by assumption.
    assert (0 <= sum size f) by (apply sum_nonneg; auto).
    destruct (Nat.lt_ge_cases x size) as [inside | far].
    + assert (f x <= sum size f) by (apply term_le_sum; auto); specialize (above x).
      replace (sum size f) with 0 by lra; lra.
    + rewrite away, off by assumption; lra.
  - rewrite positive_true by assumption; to_reals; field; lra.
Qed.

(** The same under a mean. *)
Lemma sum_times_mean_normalised size (f fallback worth : row) :
  (forall y, 0 <= f y) -> sum size f * mean size (normalised size f fallback) worth = mean size f worth.
Proof.
  intros above; unfold mean; rewrite <- sum_factor; apply sum_ext; intros x inside; to_reals.
  rewrite <- Rmult_assoc; f_equal; unfold normalised, if_positive.
  destruct (Rle_lt_dec (sum size f) 0).
  - rewrite positive_false by assumption.
    assert (f x <= sum size f) by (apply term_le_sum; auto).
    assert (0 <= sum size f) by (apply sum_nonneg; auto).
    specialize (above x); replace (sum size f) with 0 by lra; lra.
  - rewrite positive_true by assumption; to_reals; field; lra.
Qed.

(** ** Excess *)

Lemma excess_nonneg (p q : row) x : 0 <= excess p q x.
Proof. unfold excess; to_reals; cases; lra. Qed.

Lemma excess_outside size (p q : row) x :
  (forall y, 0 <= q y) -> (forall y, (size <= y)%nat -> p y = 0) -> (size <= x)%nat -> excess p q x = 0.
Proof. intros above off far; unfold excess; to_reals; rewrite (off x far); specialize (above x); cases; lra. Qed.

#[global] Hint Resolve nonneg outside total excess_nonneg : laws.
