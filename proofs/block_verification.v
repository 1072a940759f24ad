(** Block verification is lossless, for blocks of any length (Sun et al. 2024, algorithm 2).

    The ends are tested from the last one back. What makes it work: with [weight] w at a node, the probability that the
    end is there or later is w, in the mean over what is drafted below it; so the node itself passes with exactly the
    mass that is missing, and its extra token comes from what the target wants more, (w p - q)⁺. *)

From Coq Require Import Reals Lra Lia List Arith FunctionalExtensionality.
From Specproof Require Export drafts.
From Specproof.spec Require Export block.

Section Block.
Variable size : nat.
Variables target drawn : model (num := R).
Hypothesis target_model : is_model size target.
Hypothesis drawn_model : is_model size drawn.

(** ** One node: target row p with weight w, draft row q *)
Section Node.
Variables (p q : row (num := R)) (weight : R).
Hypothesis p_law : is_law size p.
Hypothesis q_law : is_law size q.
Hypothesis weight_range : 0 <= weight <= 1.

Definition weight_after : row := fun x => minimum 1 (weight * p x / q x).
Definition gap : row := excess (scaled weight p) q.
Definition passes : R :=
  if_positive (sum size gap + (1 - weight)) (sum size gap / (sum size gap + (1 - weight))) 1.

(** Step 1 of the main theorem, with w p in place of p. *)
Lemma weighed_mass x : q x * weight_after x = Rmin (weight * p x) (q x).
Proof using p_law q_law weight_range.
  unfold weight_after; pose proof (nonneg _ _ p_law x).
  assert (0 <= weight * p x) by (apply Rmult_le_pos; lra).
  destruct (nonneg _ _ q_law x) as [some | none].
  - assert (back : q x * (weight * p x / q x) = weight * p x) by (field; lra).
    rewrite minimum_is_Rmin; unfold Rmin.
    destruct (Rle_dec 1 (weight * p x / q x)), (Rle_dec (weight * p x) (q x)); nra.
  - rewrite <- none; cases; lra.
Qed.

Lemma weight_after_range x : q x <> 0 -> 0 <= weight_after x <= 1.
Proof using p_law q_law weight_range.
  intros some; pose proof (nonneg _ _ q_law x); pose proof (nonneg _ _ p_law x).
  assert (0 <= weight * p x / q x).
  { apply Rmult_le_pos; [apply Rmult_le_pos; lra | apply Rlt_le, Rinv_0_lt_compat; lra]. }
  unfold weight_after; cases; lra.
Qed.

(** What is left at the node and what is missing before it are what no later end takes. *)
Lemma left_and_miss : sum size gap + (1 - weight) = mean size q (fun x => 1 - weight_after x).
Proof using p_law q_law weight_range.
  assert (both : sum size gap = weight - mean size q weight_after).
  - rewrite <- (Rmult_1_r weight) at 1; rewrite <- (total _ _ p_law), <- sum_factor; unfold mean; rewrite <- sum_minus.
    apply sum_ext; intros x _; to_reals; rewrite weighed_mass; unfold gap, excess, scaled; to_reals; cases; lra.
  - rewrite both, mean_complement by assumption; ring.
Qed.

Lemma gap_total_nonneg : 0 <= sum size gap.
Proof using. apply sum_nonneg; intros; apply excess_nonneg. Qed.

(** The node passes where no later end did: together these have probability [left]. *)
Lemma passes_and_none_later : passes * mean size q (fun x => 1 - weight_after x) = sum size gap.
Proof using p_law q_law weight_range.
  pose proof gap_total_nonneg; rewrite <- left_and_miss; unfold passes, if_positive.
  destruct (Rle_lt_dec (sum size gap + (1 - weight)) 0).
  - rewrite positive_false by assumption; lra.
  - rewrite positive_true by assumption; field; lra.
Qed.

(** And with the rest the block ends before. *)
Lemma none_here : (1 - passes) * mean size q (fun x => 1 - weight_after x) = 1 - weight.
Proof using p_law q_law weight_range. pose proof passes_and_none_later; pose proof left_and_miss; lra. Qed.

(** The extra token after the node makes up for what the later ends give: min(w p, q) + (w p - q)⁺ = w p. *)
Lemma node_worth (worth : row) :
  mean size q (fun x => weight_after x * worth x)
  + sum size gap * mean size (normalised size gap p) worth = weight * mean size p worth.
Proof using p_law q_law weight_range.
  rewrite sum_times_mean_normalised by (intros; apply excess_nonneg).
  rewrite <- mean_scaled; unfold mean; rewrite <- sum_plus; apply sum_ext; intros x _; to_reals.
  rewrite <- Rmult_assoc, weighed_mass; unfold gap, excess, scaled; to_reals; cases; lra.
Qed.

Lemma passes_range : 0 <= passes <= 1.
Proof using weight_range.
  pose proof gap_total_nonneg; unfold passes, if_positive.
  destruct (Rle_lt_dec (sum size gap + (1 - weight)) 0).
  - rewrite positive_false by assumption; lra.
  - rewrite positive_true by assumption; set (all := sum size gap + (1 - weight)) in *.
    assert (0 < / all) by (apply Rinv_0_lt_compat; assumption).
    assert (all * / all = 1) by (field; lra).
    unfold Rdiv; split; [apply Rmult_le_pos; lra | unfold all in *; nra].
Qed.

End Node.

(** ** The whole block *)

Let judged := block_from size target drawn.

Lemma judged_step context weight x later :
  let p := target context in
  let q := drawn context in
  let below := judged (context ++ [x]) (weight_after p q weight x) later in
  judged context weight (x :: later) =
    (Outcome (passes p q weight * snd below) context (normalised size (gap p q weight) p) :: fst below,
     snd below * (1 - passes p q weight)).
Proof using.
  cbn; fold judged; unfold weight_after, passes, gap; to_reals.
  destruct (judged _ _ later) as [ends none_later]; reflexivity.
Qed.

(** In the mean over the drafts below a node of weight w, the block ends before it with probability 1 - w, and the texts
    that end there or later are worth w times the node's. *)
Theorem block_balance longer most worth : follows size target worth -> forall context weight, 0 <= weight <= 1 ->
  draw_chain size drawn longer most context (fun tokens => snd (judged context weight tokens)) = 1 - weight /\
  draw_chain size drawn longer most context (fun tokens => value size (fst (judged context weight tokens)) worth) =
    weight * worth context.
Proof using target_model drawn_model.
  intros steady; induction most as [| fewer IH]; intros context weight range.
  - cbn; to_reals; split; [reflexivity | rewrite (steady context); ring].
  - cbn [draw_chain]; destruct (longer context);
      [| cbn; to_reals; split; [reflexivity | rewrite (steady context); ring]].
    pose proof (target_model context) as p_law; pose proof (drawn_model context) as q_law.
    set (p := target context) in *; set (q := drawn context) in *.
    split.
    + rewrite <- (none_here p q weight p_law q_law range), <- mean_factor.
      apply mean_ext; intros x some.
      destruct (IH (context ++ [x]) (weight_after p q weight x)) as [none _];
        [now apply weight_after_range |].
      rewrite <- none, <- draw_chain_factor; f_equal; apply functional_extensionality; intros later.
      rewrite judged_step; cbn [snd]; fold p q; ring.
    + rewrite (steady context); fold p.
      rewrite <- (node_worth p q weight p_law q_law range).
      rewrite <- (passes_and_none_later p q weight p_law q_law range).
      set (extra := mean size (normalised size (gap p q weight) p) (fun y => worth (context ++ [y]))).
      transitivity (mean size q (fun x => weight_after p q weight x * worth (context ++ [x])
        + (passes p q weight * extra) * (1 - weight_after p q weight x))).
      * apply mean_ext; intros x some.
        destruct (IH (context ++ [x]) (weight_after p q weight x)) as [none below];
          [now apply weight_after_range |].
        rewrite <- none, <- below, <- draw_chain_factor, <- draw_chain_plus.
        f_equal; apply functional_extensionality; intros later.
        rewrite judged_step; cbn [fst value stop next kept]; fold p q extra; to_reals; ring.
      * rewrite mean_plus, mean_factor; ring.
Qed.

Theorem block_lossless longer most : lossless size target (block_round size target drawn longer most).
Proof using target_model drawn_model.
  intros worth steady context; unfold block_round, block; fold judged.
  destruct (block_balance longer most worth steady context 1) as [_ balance]; [lra |].
  to_reals; rewrite balance; ring.
Qed.

Theorem block_joint_law longer most context tokens :
  probability size target (block_round size target drawn longer most) context tokens = joint target context tokens.
Proof using target_model drawn_model. apply lossless_joint_law; auto using block_lossless. Qed.

(** The law of a draft that can be drawn is a proper one. *)
Theorem block_proper context tokens :
  drawable drawn context tokens -> is_proper size (block size target drawn context tokens).
Proof using target_model drawn_model.
  enough (weighed : forall weight, 0 <= weight <= 1 -> drawable drawn context tokens ->
    Forall (fun here => 0 <= stop here /\ is_law size (next here)) (fst (judged context weight tokens))
    /\ 0 <= snd (judged context weight tokens)
    /\ stop_total (fst (judged context weight tokens)) + snd (judged context weight tokens) = 1
    /\ (weight = 1 -> snd (judged context weight tokens) = 0)).
  { intros able; destruct (weighed 1) as (fine & _ & whole & none); [lra | assumption |].
    split; [exact fine |]; unfold block; fold judged; to_reals; rewrite (none eq_refl) in whole; lra. }
  revert context; induction tokens as [| x later IH]; intros context weight range able.
  - cbn; to_reals; repeat split; try lra.
    apply Forall_cons; [split; [cbn; lra | apply target_model] | apply Forall_nil].
  - destruct able as [here below].
    pose proof (target_model context) as p_law; pose proof (drawn_model context) as q_law.
    rewrite judged_step; set (p := target context) in *; set (q := drawn context) in *; cbn [fst snd].
    destruct (IH (context ++ [x]) (weight_after p q weight x)) as (fine & some & whole & _);
      [apply weight_after_range; auto; lra | assumption |].
    pose proof (passes_range p q weight range) as chance.
    repeat split.
    + apply Forall_cons; [| exact fine]; cbn; split; [apply Rmult_le_pos; lra |].
      apply normalised_law; [intros; apply excess_nonneg | | assumption].
      intros y far; apply (excess_outside size); [apply q_law | | assumption].
      intros z off; unfold scaled; to_reals; rewrite (outside _ _ p_law z off); ring.
    + apply Rmult_le_pos; lra.
    + cbn; lra.
    + intros full; enough (passes p q weight = 1) as -> by ring.
      unfold passes, if_positive; rewrite full; replace (1 - 1) with 0 by ring; rewrite Rplus_0_r.
      destruct (Rle_lt_dec (sum size (gap p q 1)) 0);
        [rewrite positive_false by assumption; reflexivity | rewrite positive_true by assumption; field; lra].
Qed.

End Block.
