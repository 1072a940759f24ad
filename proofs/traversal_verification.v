(** Traversal verification is lossless, on trees of any shape: block verification with siblings.

    The same balance as in block_verification.v: of a node with weight w, the part of the tree from it on has an end with
    probability w, in the mean over what is drafted there. One sibling after the other takes its share, and what it leaves
    is a node again, with another weight and another law that is owed. *)

From Coq Require Import Reals Lra Lia List Arith FunctionalExtensionality.
From Specproof Require Export sibling_rejection block_verification.
From Specproof.spec Require Export traversal.

Section Traversal.
Variable replaced : bool.
Variable size : nat.
Variables target drawn : model (num := R).
Hypothesis target_model : is_model size target.
Hypothesis drawn_model : is_model size drawn.

Let draw_tree := draw_tree replaced size drawn.
Let judged := bottom_up replaced size target drawn.

(** What was alive before only scales the rest. *)
Lemma bottom_up_alive children worth context alive weight owed source :
  value size (fst (judged context alive weight owed source children)) worth =
    alive * value size (fst (judged context 1 weight owed source children)) worth /\
  snd (judged context alive weight owed source children) =
    alive * snd (judged context 1 weight owed source children).
Proof using.
  revert context alive weight owed source; induction children as [| x below IHb younger IHy]; intros; cbn;
    [to_reals; split; ring |].
  fold judged; set (weight_b := minimum _ _); set (weight_y := if_positive _ _ _).
  destruct (IHb (context ++ [x]) alive weight_b (target (context ++ [x])) (drawn (context ++ [x]))) as [ends_b alive_b].
  destruct (judged (context ++ [x]) alive _ _ _ below) as [ends then_],
    (judged (context ++ [x]) 1 _ _ _ below) as [ends' then_'].
  cbn in ends_b, alive_b; subst then_.
  set (owed_y := normalised _ _ _); set (source_y := next_source _ _ _ _).
  destruct (IHy context (alive * then_') weight_y owed_y source_y) as [ends_y alive_y].
  destruct (IHy context then_' weight_y owed_y source_y) as [ends_y' alive_y'].
  destruct (judged context (alive * then_') _ _ _ younger), (judged context then_' _ _ _ younger).
  cbn in *; rewrite !value_app, ends_b, ends_y, ends_y', alive_y, alive_y'; split; ring.
Qed.

(** One sibling drawn from [source], for a node of weight w that owes [owed]: its own chance to be an end. *)
Definition share (owed source : row) (weight : R) (x : token) : R := minimum 1 (weight * ratio (owed x) (source x)).

Lemma share_range owed source weight x :
  is_law size owed -> 0 <= weight <= 1 -> 0 <= share owed source weight x <= 1.
Proof using.
  intros law_o range; pose proof (nonneg _ _ law_o x); unfold share, ratio, if_positive.
  destruct (Rle_lt_dec (source x) 0).
  - rewrite positive_false by assumption; to_reals; cases; lra.
  - rewrite positive_true by assumption; to_reals.
    assert (0 <= weight * (owed x / source x)).
    { apply Rmult_le_pos; [lra | apply Rmult_le_pos; [| apply Rlt_le, Rinv_0_lt_compat]; assumption]. }
    cases; lra.
Qed.

Lemma share_is_weight_after owed source weight x :
  is_law size source -> source x <> 0 -> share owed source weight x = weight_after owed source weight x.
Proof using.
  intros fine some; pose proof (nonneg _ _ fine x); unfold share, weight_after, ratio, if_positive.
  rewrite positive_true by lra; to_reals; f_equal; field; assumption.
Qed.

(** A source that is used up changes nothing. *)
Lemma used_up owed source weight :
  is_law size owed -> (forall x, source x = 0) -> 0 <= weight <= 1 ->
  passes size owed source weight = weight /\
  forall worth, weight * mean size (normalised size (gap owed source weight) owed) worth = weight * mean size owed worth.
Proof using.
  intros law_o none range.
  assert (same : gap owed source weight = scaled weight owed).
  { apply functional_extensionality; intros x; unfold gap, excess, scaled; to_reals; rewrite none.
    pose proof (nonneg _ _ law_o x); assert (0 <= weight * owed x) by (apply Rmult_le_pos; lra); cases; lra. }
  assert (left : sum size (gap owed source weight) = weight).
  { rewrite same; unfold scaled; to_reals; rewrite sum_factor, (total _ _ law_o); ring. }
  split.
  - unfold passes, if_positive; rewrite left, positive_true by lra; to_reals; field; lra.
  - intros worth; rewrite <- left at 1.
    rewrite sum_times_mean_normalised by (intros; apply excess_nonneg); rewrite same; apply mean_scaled.
Qed.

(** Everything about one sibling: with younger siblings that end with probability [passes] and are worth [after], the
    probability of no end is 1 - w, and the worth w times what is owed. *)
Lemma one_share owed source weight (worth : row) :
  is_law size owed -> is_source size source -> 0 <= weight <= 1 ->
  let later := passes size owed source weight in
  let after := mean size (normalised size (gap owed source weight) owed) worth in
  draw size source (fun x => (1 - share owed source weight x) * (1 - later)) = 1 - weight /\
  draw size source (fun x => share owed source weight x * worth x + (1 - share owed source weight x) * (later * after)) =
    weight * mean size owed worth.
Proof using.
  intros law_o sound range; cbn zeta; destruct sound as [fine | none].
  - rewrite !draw_law by assumption; split.
    + rewrite <- (none_here size owed source weight law_o fine range), <- mean_factor.
      apply mean_ext; intros x some; rewrite share_is_weight_after by assumption; ring.
    + rewrite <- (node_worth size owed source weight law_o fine range).
      rewrite <- (passes_and_none_later size owed source weight law_o fine range).
      set (later := passes _ _ _ _); set (after := mean _ (normalised _ _ _) _).
      transitivity (mean size source (fun x => weight_after owed source weight x * worth x
        + (later * after) * (1 - weight_after owed source weight x))).
      * apply mean_ext; intros x some; rewrite share_is_weight_after by assumption; ring.
      * rewrite mean_plus, mean_factor; ring.
  - rewrite !draw_nothing by assumption; destruct (used_up owed source weight law_o none range) as [-> same].
    assert (share owed source weight 0%nat = 0) as ->.
    { unfold share, ratio, if_positive; rewrite positive_false by (rewrite none; lra); to_reals; cases; lra. }
    rewrite same; split; ring.
Qed.

Lemma judged_node context x below younger weight owed source worth :
  let end_below :=
    judged (context ++ [x]) 1 (share owed source weight x) (target (context ++ [x])) (drawn (context ++ [x])) below in
  let end_beside :=
    judged context 1 (passes size owed source weight) (normalised size (gap owed source weight) owed)
      (next_source replaced size source x) younger in
  value size (fst (judged context 1 weight owed source (node x below younger))) worth =
    value size (fst end_below) worth + snd end_below * value size (fst end_beside) worth /\
  snd (judged context 1 weight owed source (node x below younger)) = snd end_below * snd end_beside.
Proof using.
  cbn zeta.
  change (judged context 1 weight owed source (node x below younger)) with
    (let (ends, then_) :=
       judged (context ++ [x]) 1 (share owed source weight x) (target (context ++ [x])) (drawn (context ++ [x])) below in
     let (others, last) :=
       judged context then_ (passes size owed source weight) (normalised size (gap owed source weight) owed)
         (next_source replaced size source x) younger in
     (ends ++ others, last)).
  destruct (judged (context ++ [x]) 1 _ _ _ below) as [ends then_].
  destruct (bottom_up_alive younger worth context then_ (passes size owed source weight)
    (normalised size (gap owed source weight) owed) (next_source replaced size source x)) as [ends_same alive_same].
  destruct (judged context then_ _ _ _ younger) as [others last]; cbn [fst snd] in *.
  rewrite value_app, ends_same; split; [reflexivity | assumption].
Qed.

(** What is drafted below a sibling and beside it is drawn apart: means of products are products of means. *)
Lemma drawn_apart below younger context context' source source' (f g h : tree -> R) :
  is_source size source' ->
  draw_tree context source below (fun b => draw_tree context' source' younger (fun y => f b + g b * h y)) =
  draw_tree context source below f + draw_tree context source below g * draw_tree context' source' younger h.
Proof using drawn_model.
  intros sound; transitivity (draw_tree context source below (fun b => f b + draw_tree context' source' younger h * g b)).
  - unfold draw_tree; f_equal; apply functional_extensionality; intros b.
    transitivity (siblings.draw_tree replaced size drawn context' source' younger (fun _ => f b)
      + siblings.draw_tree replaced size drawn context' source' younger (fun y => g b * h y)).
    + symmetry; rewrite <- draw_tree_plus; reflexivity.
    + rewrite draw_tree_const, draw_tree_factor by assumption; ring.
  - unfold draw_tree; rewrite draw_tree_plus, draw_tree_factor; ring.
Qed.

(** ** The balance *)
Theorem traversal_balance worth : follows size target worth -> forall children context weight owed source,
  is_law size owed -> is_source size source -> 0 <= weight <= 1 ->
  draw_tree context source children (fun t => snd (judged context 1 weight owed source t)) = 1 - weight /\
  draw_tree context source children (fun t => value size (fst (judged context 1 weight owed source t)) worth) =
    weight * mean size owed (fun y => worth (context ++ [y])).
Proof using target_model drawn_model.
  intros steady; induction children as [| below IHb younger IHy]; intros context weight owed source law_o sound range.
  - (* no child (more): the node is a leaf *)
    cbn; to_reals; split; ring.
  - destruct (one_share owed source weight (fun y => worth (context ++ [y])) law_o sound range) as [none worths].
    set (later := passes size owed source weight) in *.
    set (owed_then := normalised size (gap owed source weight) owed) in *.
    assert (owed_then_law : is_law size owed_then).
    { apply normalised_law; [intros; apply excess_nonneg | | assumption]; intros x far.
      apply (excess_outside size); [| | assumption].
      - intros y; destruct sound as [fine | ->]; [apply fine | lra].
      - intros y off; unfold scaled; to_reals; rewrite (outside _ _ law_o y off); ring. }
    assert (later_range : 0 <= later <= 1) by (apply passes_range; assumption).
    (* what a sibling and its younger ones come to, in the mean over what is drafted below and beside it *)
    assert (step : forall x,
      draw_tree (context ++ [x]) (drawn (context ++ [x])) below (fun b =>
        draw_tree context (next_source replaced size source x) younger (fun y =>
          snd (judged context 1 weight owed source (node x b y)))) = (1 - share owed source weight x) * (1 - later) /\
      draw_tree (context ++ [x]) (drawn (context ++ [x])) below (fun b =>
        draw_tree context (next_source replaced size source x) younger (fun y =>
          value size (fst (judged context 1 weight owed source (node x b y))) worth)) =
        share owed source weight x * worth (context ++ [x])
        + (1 - share owed source weight x) * (later * mean size owed_then (fun y => worth (context ++ [y])))).
    { intros x.
      destruct (IHb (context ++ [x]) (share owed source weight x) (target (context ++ [x])) (drawn (context ++ [x])))
        as [none_below worth_below]; [auto | left; auto | now apply share_range |].
      destruct (IHy context later owed_then (next_source replaced size source x)) as [none_beside worth_beside];
        [assumption | now apply next_is_source | assumption |].
      rewrite <- steady in worth_below; rewrite <- none_below, <- none_beside, <- worth_below, <- worth_beside.
      set (end_below := fun b => judged (context ++ [x]) 1 (share owed source weight x) (target (context ++ [x]))
        (drawn (context ++ [x])) b) in *.
      set (end_beside := fun y => judged context 1 later owed_then (next_source replaced size source x) y) in *.
      split.
      - transitivity (draw_tree (context ++ [x]) (drawn (context ++ [x])) below (fun b =>
          draw_tree context (next_source replaced size source x) younger (fun y =>
            0 + snd (end_below b) * snd (end_beside y)))).
        + f_equal; apply functional_extensionality; intros b; f_equal; apply functional_extensionality; intros y.
          rewrite Rplus_0_l; apply (judged_node context x b y weight owed source worth).
        + rewrite drawn_apart by now apply next_is_source.
          unfold draw_tree at 1; rewrite draw_tree_const by (try left; auto); apply Rplus_0_l.
      - transitivity (draw_tree (context ++ [x]) (drawn (context ++ [x])) below (fun b =>
          draw_tree context (next_source replaced size source x) younger (fun y =>
            value size (fst (end_below b)) worth + snd (end_below b) * value size (fst (end_beside y)) worth))).
        + f_equal; apply functional_extensionality; intros b; f_equal; apply functional_extensionality; intros y.
          apply (judged_node context x b y weight owed source worth).
        + apply (drawn_apart _ _ _ _ _ _ (fun b => value size (fst (end_below b)) worth) (fun b => snd (end_below b))
            (fun y => value size (fst (end_beside y)) worth)); now apply next_is_source. }
    split; [rewrite <- none | rewrite <- worths]; cbn [siblings.draw_tree]; unfold draw_tree; cbn [siblings.draw_tree];
      fold draw_tree; apply draw_ext; intros x; apply step.
Qed.

Theorem traversal_lossless shapes : lossless size target (traversal_round replaced size target drawn shapes).
Proof using target_model drawn_model.
  intros worth steady context; unfold traversal_round, traversal; fold draw_tree judged.
  destruct (traversal_balance worth steady (shapes context) context 1 (target context) (drawn context)) as [_ balance];
    [auto | left; auto | lra |].
  to_reals; rewrite balance, <- steady; ring.
Qed.

Theorem traversal_joint_law shapes context tokens :
  probability size target (traversal_round replaced size target drawn shapes) context tokens = joint target context tokens.
Proof using target_model drawn_model. apply lossless_joint_law; auto using traversal_lossless. Qed.

(** The law is a proper one, whatever tokens the tree has. *)
Theorem traversal_proper context children : is_proper size (traversal replaced size target drawn context children).
Proof using target_model drawn_model.
  enough (weighed : forall alive weight owed source,
    0 <= alive -> 0 <= weight <= 1 -> is_law size owed -> is_source size source ->
    Forall (fun here => 0 <= stop here /\ is_law size (next here)) (fst (judged context alive weight owed source children))
    /\ 0 <= snd (judged context alive weight owed source children)
    /\ stop_total (fst (judged context alive weight owed source children))
       + snd (judged context alive weight owed source children) = alive
    /\ (weight = 1 -> snd (judged context alive weight owed source children) = 0)).
  { destruct (weighed 1 1 (target context) (drawn context)) as (fine & _ & whole & none);
      [lra | lra | auto | left; auto |].
    split; [exact fine |]; unfold traversal; fold judged; to_reals; rewrite (none eq_refl) in whole; lra. }
  revert context; induction children as [| x below IHb younger IHy];
    intros context alive weight owed source some range law_o sound.
  - cbn; to_reals; split; [apply Forall_cons; [split; [apply Rmult_le_pos; lra | assumption] | apply Forall_nil] |].
    split; [apply Rmult_le_pos; lra |]; split; [ring | intros ->; ring].
  - change (judged context alive weight owed source (node x below younger)) with
      (let (ends, then_) :=
         judged (context ++ [x]) alive (share owed source weight x) (target (context ++ [x])) (drawn (context ++ [x])) below in
       let (others, last) :=
         judged context then_ (passes size owed source weight) (normalised size (gap owed source weight) owed)
           (next_source replaced size source x) younger in
       (ends ++ others, last)).
    destruct (IHb (context ++ [x]) alive (share owed source weight x) (target (context ++ [x])) (drawn (context ++ [x])))
      as (fine & still & whole & _); [assumption | now apply share_range | auto | left; auto |].
    destruct (judged (context ++ [x]) alive _ _ _ below) as [ends then_]; cbn [fst snd] in *.
    destruct (IHy context then_ (passes size owed source weight) (normalised size (gap owed source weight) owed)
      (next_source replaced size source x)) as (fine' & left' & whole' & none').
    + assumption.
    + now apply passes_range.
    + apply normalised_law; [intros; apply excess_nonneg | | assumption]; intros y far.
      apply (excess_outside size); [| | assumption].
      * intros z; destruct sound as [law_s | ->]; [apply law_s | lra].
      * intros z off; unfold scaled; to_reals; rewrite (outside _ _ law_o z off); ring.
    + now apply next_is_source.
    + destruct (judged context then_ _ _ _ younger) as [others last]; cbn [fst snd] in *.
      split; [apply Forall_app; auto |]; split; [assumption |]; split; [rewrite stop_total_app; lra |].
      intros ->; apply none'; unfold passes, if_positive; replace (1 - 1) with 0 by ring; rewrite Rplus_0_r.
      destruct (Rle_lt_dec (sum size (gap owed source 1)) 0);
        [rewrite positive_false by assumption; reflexivity | rewrite positive_true by assumption; field; lra].
Qed.

End Traversal.
