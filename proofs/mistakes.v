(** The classical mistakes, as theorems: where exactly each of them is wrong, and the smallest numbers that show it. *)

From Coq Require Import Reals Lra Lia List Arith FunctionalExtensionality.
From Specproof Require Export rounds.
From Specproof.spec Require Import spec_rl.

Section Mistakes.
Variable size : nat.
Variables p q : row (num := R).
Hypothesis p_law : is_law size p.
Hypothesis q_law : is_law size q.

Let accept := accept p q.
Let refused := refused size p q.

Lemma never_refused : refused = 0 -> forall x, p x = q x.
Proof using p_law q_law.
  intros never x; unfold refused in never.
  destruct (Nat.lt_ge_cases x size) as [inside | off];
    [| now rewrite (outside _ _ p_law x off), (outside _ _ q_law x off)].
  pose proof (excess_is_refused size p q p_law q_law) as more; rewrite never in more.
  pose proof (excess_total size p q p_law) as both; rewrite more in both.
  assert (less : sum size (fun y => q y - Rmin (p y) (q y)) = 0) by (rewrite sum_minus, (total _ _ q_law); lra).
  assert (excess p q x <= 0) by (rewrite <- more; apply term_le_sum; auto using excess_nonneg).
  assert (q x - Rmin (p x) (q x) <= 0).
  { rewrite <- less; apply (term_le_sum size (fun y => q y - Rmin (p y) (q y))); [intros; cases; lra | assumption]. }
  unfold excess in *; to_reals; cases; lra.
Qed.

(** ** After a rejection, draw from the target itself *)
Definition resampled : row := fun x => q x * accept x + refused * p x.

(** It is right exactly where the draft is the target, thinned out evenly, plus tokens that the target never says: what
    both agree on is counted twice. *)
Theorem resampling_from_target_right_iff :
  (forall x, resampled x = p x) <-> (forall x, p x <> 0 -> q x = (1 - refused) * p x).
Proof using p_law q_law.
  assert (mass : forall x, resampled x = Rmin (p x) (q x) + refused * p x)
    by (intros; unfold resampled, accept; now rewrite (accepted_mass size p q p_law q_law)).
  pose proof (refused_is_total_variation size p q p_law q_law) as distance.
  assert (0 <= refused).
  { unfold refused; rewrite distance; unfold total_variation.
    assert (0 <= sum size (fun x => Rabs (p x - q x))) by (apply sum_nonneg; intros; apply Rabs_pos); lra. }
  split.
  - intros right x some; specialize (right x); rewrite mass in right; pose proof (nonneg _ _ p_law x).
    unfold Rmin in right; destruct (Rle_dec (p x) (q x)); [| lra].
    (* nothing of x is refused, and it comes again after refusals: there are none *)
    assert (refused * p x = 0) as none by lra; apply Rmult_integral in none as [never |]; [| contradiction].
    pose proof (never_refused never x); rewrite never; lra.
  - intros even x; rewrite mass; pose proof (nonneg _ _ p_law x); pose proof (nonneg _ _ q_law x).
    destruct (Req_dec (p x) 0) as [none | some]; [rewrite none; cases; lra |].
    rewrite (even x some); assert (0 <= refused * p x) by (apply Rmult_le_pos; lra); cases; lra.
Qed.

(** ** After a rejection, draw from |p - q| *)
Definition resampled_absolute : row := fun x =>
  q x * accept x + refused * (Rabs (p x - q x) / sum size (fun y => Rabs (p y - q y))).

(** It is never right, unless the draft is perfect: tokens that were drafted too often come again. *)
Theorem absolute_difference_right_only_if_same : (forall x, resampled_absolute x = p x) -> forall x, p x = q x.
Proof using p_law q_law.
  intros right x; pose proof (refused_is_total_variation size p q p_law q_law) as distance.
  unfold total_variation in distance; fold refused in distance.
  destruct (Req_dec refused 0) as [never | some]; [now apply never_refused |].
  specialize (right x); unfold resampled_absolute, accept in right.
  rewrite (accepted_mass size p q p_law q_law), distance in right.
  set (all := sum size (fun y => Rabs (p y - q y))) in *.
  replace (all / 2 * (Rabs (p x - q x) / all)) with (Rabs (p x - q x) / 2) in right by (field; lra).
  cases; lra.
Qed.

(** ** Judge a token by rows that it was not drawn from: another temperature, a soft row for an argmax draft *)
Section WrongRows.
Variable drawn : row (num := R).
Hypothesis drawn_law : is_law size drawn.
Hypothesis possible : forall x, q x = 0 -> drawn x = 0.

(** Drawn from [drawn], judged by a row [q], for a target [t]. *)
Definition judged_by (t : row (num := R)) : row := fun x =>
  drawn x * main_theorem.accept t q x
  + mean size drawn (fun y => 1 - main_theorem.accept t q y) * residual size t q x.

(** Where the target is q, everything is accepted, and the text has the law of the draft. *)
Theorem wrong_rows_give_the_draft x : judged_by q x = drawn x.
Proof using q_law possible.
  assert (all : forall y, drawn y <> 0 -> main_theorem.accept q q y = 1).
  { intros y some; assert (q y <> 0) by (intros none; apply some, possible, none).
    unfold main_theorem.accept; to_reals; replace (q y / q y) with 1 by (field; assumption); cases; lra. }
  unfold judged_by; rewrite (mean_ext _ _ _ (fun _ => 0)) by (intros y some; rewrite all by assumption; ring).
  replace (mean size drawn (fun _ => 0)) with 0 by (symmetry; apply sum_zero; intros; to_reals; ring).
  destruct (Req_dec (drawn x) 0) as [-> | some]; [ring | rewrite all by assumption; ring].
Qed.

(** So only the rows that were drawn from are right for every target. (That they are is the main theorem.) *)
Theorem rows_must_be_those_drawn_from :
  (forall t, is_law size t -> forall x, judged_by t x = t x) -> forall x, drawn x = q x.
Proof using q_law possible. intros right x; rewrite <- wrong_rows_give_the_draft; now apply right. Qed.

End WrongRows.

(** A greedy draft with the draft's soft row: right for every target only if that row is one-hot. *)
Theorem argmax_draft_with_soft_row best :
  (best < size)%nat -> q best <> 0 ->
  (forall t, is_law size t -> forall x, judged_by (point best) t x = t x) -> forall x, q x = point best x.
Proof using q_law.
  intros inside some right x; symmetry; apply rows_must_be_those_drawn_from; [| exact right].
  intros y none; unfold point; destruct (Nat.eqb_spec y best) as [-> | _]; [contradiction | reflexivity].
Qed.

(** ** Drop a drawn token for its own value, and go on as if it had not been drawn *)
Variable drops : token -> bool.

Definition dropped : R := mean size q (fun x => if drops x then 1 else 0).
Definition dropping : row := fun x =>
  (if drops x then 0 else q x * accept x)
  + mean size q (fun y => if drops y then p x else (1 - accept y) * residual size p q x).

(** With a perfect draft, which may be dropped or not, it is right only if everything or nothing is dropped. *)
Theorem dropping_by_value_right_only_if_none_or_all :
  p = q -> (forall x, dropping x = p x) -> dropped = 0 \/ dropped = 1.
Proof using q_law.
  intros same right.
  assert (kept : forall x, q x <> 0 -> accept x = 1).
  { intros x some; unfold accept, main_theorem.accept; rewrite same; to_reals.
    replace (q x / q x) with 1 by (field; assumption); cases; lra. }
  assert (law : forall x, dropping x = (if drops x then 0 else q x) + dropped * q x).
  { intros x; unfold dropping; f_equal.
    - destruct (drops x); [reflexivity |].
      destruct (Req_dec (q x) 0) as [-> | some]; [ring | rewrite kept by assumption; ring].
    - unfold dropped; rewrite <- (Rmult_comm (q x)), <- mean_factor; apply mean_ext; intros y some.
      rewrite kept by assumption; rewrite same; destruct (drops y); ring. }
  (* summed over what is dropped: dropped · dropped = dropped *)
  assert (square : dropped * dropped = dropped).
  - unfold dropped at 2 3; unfold mean; rewrite <- sum_factor; apply sum_ext; intros x _; to_reals.
    specialize (right x); rewrite law, same in right; destruct (drops x); lra.
  - assert (dropped * (dropped - 1) = 0) as none by lra; apply Rmult_integral in none as []; [left | right]; lra.
Qed.

End Mistakes.

(** Drawing from the target after a rejection is SPEC-RL as published. *)
Theorem spec_rl_of_one_token size (target drawn : model) context x (worth : text -> R) :
  let p := target context in
  let q := drawn context in
  value size (spec_rl 1 target drawn context 1 [x]) worth =
    (1 - accept p q x) * mean size p (fun y => worth (context ++ [y]))
    + accept p q x * mean size (target (context ++ [x])) (fun y => worth ((context ++ [x]) ++ [y])).
Proof.
  cbn; unfold accept; to_reals; replace (1 * target context x) with (target context x) by ring; ring.
Qed.

(** ** The numbers *)

Ltac listed_law := split;
  [intros x; do 4 (destruct x as [| x]; [cbn; lra |]); cbn; destruct x; cbn; lra
  | intros x far; cbn in *; do 4 (destruct x as [| x]; [try lia; try reflexivity |]); now destruct x
  | cbn; lra].

(** cat, dog, fish. *)
Definition target_of_three : row := listed [6/10; 3/10; 1/10].
Definition draft_of_three : row := listed [4/10; 5/10; 1/10].

Lemma target_of_three_law : is_law 3 target_of_three.
Proof. unfold target_of_three, listed; listed_law. Qed.
Lemma draft_of_three_law : is_law 3 draft_of_three.
Proof. unfold draft_of_three, listed; listed_law. Qed.

Lemma refused_of_three : refused 3 target_of_three draft_of_three = 2/10.
Proof.
  rewrite refused_total by auto using target_of_three_law, draft_of_three_law; cbn; cases; lra.
Qed.

(** 0.52 in place of 0.6. *)
Theorem resampling_from_target_witness : resampled 3 target_of_three draft_of_three 0%nat = 52/100.
Proof.
  unfold resampled; rewrite (accepted_mass 3) by auto using target_of_three_law, draft_of_three_law.
  rewrite refused_of_three; cbn; cases; lra.
Qed.

(** Dog: 0.4 in place of 0.3. *)
Theorem absolute_difference_witness : resampled_absolute 3 target_of_three draft_of_three 1%nat = 4/10.
Proof.
  unfold resampled_absolute; rewrite (accepted_mass 3) by auto using target_of_three_law, draft_of_three_law.
  rewrite refused_of_three; cbn; cases; try lra; field.
Qed.

Definition fair : row := listed [1/2; 1/2].
Lemma fair_law : is_law 2 fair.
Proof. unfold fair, listed; listed_law. Qed.

(** A round that always writes 0 is not lossless: the word is about something. *)
Theorem always_zero_is_not_lossless :
  ~ lossless 2 (fun _ => fair) (fun context worth => worth (context ++ [0%nat])).
Proof.
  intros claim; pose proof (lossless_joint_law 2 (fun _ => fair) (fun _ => fair_law) _ claim [] [0%nat]) as wrong.
  revert wrong; unfold probability, completed; cbn -[is_text]; rewrite is_text_same; cbn; lra.
Qed.

(** Target and draft are fair, the greedy draft says 0: so does the text, always. *)
Theorem argmax_draft_witness : judged_by 2 fair (point 0%nat) fair 0%nat = 1 /\ fair 0%nat = 1/2.
Proof.
  split; [| reflexivity]; rewrite wrong_rows_give_the_draft; [reflexivity | apply fair_law |].
  intros y none; destruct y as [| y]; [cbn in none; lra | reflexivity].
Qed.

(** Target and draft are fair, a drafted 1 is dropped: 3/4 in place of 1/2. *)
Theorem dropping_by_value_witness : dropping 2 fair fair (fun x => x =? 1)%nat 0%nat = 3/4.
Proof.
  unfold dropping, mean, accept; cbn; unfold accept, fair, listed; cbn.
  rewrite minimum_is_Rmin; replace (1 / 2 / (1 / 2)) with 1 by field; unfold Rmin; destruct (Rle_dec 1 1); lra.
Qed.
