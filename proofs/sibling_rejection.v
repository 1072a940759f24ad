(** Recursive rejection over siblings, independent ones and siblings without replacement, on trees of any shape.

    One sibling after the other is put to the test of the main theorem, and a rejection leaves a law that is still owed:
    the residual. Where siblings are drawn without replacement, the next one comes from what its elders left of the draft
    row, and is tested against exactly that. *)

From Coq Require Import Reals Lra Lia List Arith FunctionalExtensionality.
From Specproof Require Export drafts.
From Specproof.spec Require Export siblings.

Section SiblingRejection.
Variable replaced : bool.
Variable size : nat.
Variables target drawn : model (num := R).
Hypothesis target_model : is_model size target.
Hypothesis drawn_model : is_model size drawn.

(** A row that siblings come from is a law, or used up. *)
Definition is_source (source : row) : Prop := is_law size source \/ forall x, source x = 0.

Lemma next_is_source source x : is_source source -> is_source (next_source replaced size source x).
Proof using.
  intros sound; unfold next_source; destruct replaced; [assumption |].
  assert (above : forall y, 0 <= emptied source x y /\ ((size <= y)%nat -> emptied source x y = 0)).
  { intros y; unfold emptied; destruct (y =? x)%nat; to_reals; [lra |].
    destruct sound as [fine | none]; [split; apply fine | rewrite none; lra]. }
  unfold without, normalised, if_positive; destruct (Rle_lt_dec (sum size (emptied source x)) 0) as [less | more].
  - right; intros; now rewrite positive_false.
  - left; rewrite positive_true by assumption; split.
    + intros y; to_reals; apply Rmult_le_pos; [apply above | apply Rlt_le, Rinv_0_lt_compat; assumption].
    + intros y far; to_reals; rewrite (proj2 (above y) far); field; lra.
    + rewrite (sum_ext _ _ (fun y => / sum size (emptied source x) * emptied source x y)) by (intros; to_reals; field; lra).
      rewrite sum_factor; field; lra.
Qed.

(** What is owed after a rejection. *)
Definition still_owed (owed source : row) : row := normalised size (excess owed source) owed.

Lemma still_owed_law owed source : is_law size owed -> is_source source -> is_law size (still_owed owed source).
Proof using.
  intros law_o sound; apply normalised_law; auto using excess_nonneg; intros x far.
  apply (excess_outside size); [| apply law_o | assumption].
  intros y; destruct sound as [fine | ->]; [apply fine | lra].
Qed.

(** ** Drawing a tree is a mean, too *)

Lemma draw_ext source f g : (forall x, f x = g x) -> draw size source f = draw size source g.
Proof using.
  intros same; unfold draw, if_positive; rewrite (same O), (mean_ext _ source f g) by auto; reflexivity.
Qed.

Lemma draw_plus source f g : draw size source (fun x => f x + g x) = draw size source f + draw size source g.
Proof using. unfold draw, if_positive; destruct (positive _); [apply mean_plus | reflexivity]. Qed.

Lemma draw_factor source a f : draw size source (fun x => a * f x) = a * draw size source f.
Proof using. unfold draw, if_positive; destruct (positive _); [apply mean_factor | reflexivity]. Qed.

Lemma draw_law source f : is_law size source -> draw size source f = mean size source f.
Proof using.
  intros fine; unfold draw, if_positive; rewrite positive_true; [reflexivity | rewrite (total _ _ fine); lra].
Qed.

Lemma draw_nothing source f : (forall x, source x = 0) -> draw size source f = f O.
Proof using.
  intros none; unfold draw, if_positive; rewrite positive_false; [reflexivity |].
  rewrite sum_zero; [lra | auto].
Qed.

Lemma draw_const source a : is_source source -> draw size source (fun _ => a) = a.
Proof using.
  intros [fine | none]; [rewrite draw_law by assumption; now apply mean_const | now rewrite draw_nothing].
Qed.

Let draw_tree := draw_tree replaced size drawn.

Lemma draw_tree_plus children context source f g :
  draw_tree context source children (fun t => f t + g t) =
  draw_tree context source children f + draw_tree context source children g.
Proof using.
  revert context source f g; induction children as [| below IHb younger IHy]; intros; cbn; [reflexivity |].
  rewrite <- draw_plus; apply draw_ext; intros x; fold draw_tree; rewrite <- IHb; f_equal.
  apply functional_extensionality; intros t; apply IHy.
Qed.

Lemma draw_tree_factor children context source a f :
  draw_tree context source children (fun t => a * f t) = a * draw_tree context source children f.
Proof using.
  revert context source f; induction children as [| below IHb younger IHy]; intros; cbn; [reflexivity |].
  rewrite <- draw_factor; apply draw_ext; intros x; fold draw_tree; rewrite <- IHb; f_equal.
  apply functional_extensionality; intros t; apply IHy.
Qed.

Lemma draw_tree_const children context source a :
  is_source source -> draw_tree context source children (fun _ => a) = a.
Proof using drawn_model.
  revert context source; induction children as [| below IHb younger IHy]; intros context source sound; cbn; [reflexivity |].
  fold draw_tree; transitivity (draw size source (fun _ => a)); [| now apply draw_const]; apply draw_ext; intros x.
  transitivity (draw_tree (context ++ [x]) (drawn (context ++ [x])) below (fun _ => a));
    [| apply IHb; left; apply drawn_model]; f_equal.
  apply functional_extensionality; intros t; apply IHy; now apply next_is_source.
Qed.

(** ** The theorem *)

Let judged := in_turn replaced size target drawn.

Lemma in_turn_reached children worth context reached owed source :
  value size (judged context reached owed source children) worth =
  reached * value size (judged context 1 owed source children) worth.
Proof using.
  revert context reached owed source; induction children as [| x below IHb younger IHy]; intros; cbn; to_reals; [ring |].
  fold judged; rewrite !value_app, IHb, IHy, (IHb _ (1 * _)), (IHy _ (1 * _)); ring.
Qed.

(** One sibling against what is owed: the main theorem, for a source that may be used up. *)
Lemma one_sibling owed source (worth : row) :
  is_law size owed -> is_source source ->
  draw size source (fun x =>
    let accept := Rmin 1 (ratio (owed x) (source x)) in
    accept * worth x + (1 - accept) * mean size (still_owed owed source) worth) =
  mean size owed worth.
Proof using.
  intros law_o [fine | none].
  - rewrite draw_law by assumption; rewrite <- (single_draft_mean size owed source) by assumption.
    apply mean_ext; intros x some; cbn; unfold accept; rewrite minimum_is_Rmin.
    pose proof (nonneg _ _ fine x); unfold ratio, if_positive; rewrite positive_true by lra; reflexivity.
  - rewrite draw_nothing by assumption; cbn; unfold ratio, if_positive; rewrite positive_false by (rewrite none; lra).
    to_reals; rewrite Rmin_right by lra.
    replace (mean size owed worth) with (mean size (still_owed owed source) worth); [ring |].
    assert (same : excess owed source = owed).
    { apply functional_extensionality; intros x; unfold excess; to_reals; rewrite none.
      pose proof (nonneg _ _ law_o x); cases; lra. }
    unfold still_owed; rewrite same, <- (sum_times_mean_normalised size owed owed worth) by apply law_o.
    rewrite (total _ _ law_o); ring.
Qed.

Lemma siblings_value worth : follows size target worth -> forall children context owed source,
  is_law size owed -> is_source source ->
  draw_tree context source children (fun t => value size (judged context 1 owed source t) worth) =
  mean size owed (fun y => worth (context ++ [y])).
Proof using target_model drawn_model.
  intros steady; induction children as [| below IHb younger IHy]; intros context owed source law_o sound; cbn.
  - (* no sibling is left: the extra token has the law that is owed *)
    to_reals; ring.
  - (* accepted, it is followed; refused, the younger siblings meet what is still owed *)
    rewrite <- (one_sibling owed source (fun y => worth (context ++ [y]))) by assumption.
    apply draw_ext; intros x; fold draw_tree judged; cbn zeta.
    set (chance := Rmin 1 (ratio (owed x) (source x))).
    transitivity (draw_tree (context ++ [x]) (drawn (context ++ [x])) below (fun b =>
      chance * value size (judged (context ++ [x]) 1 (target (context ++ [x])) (drawn (context ++ [x])) b) worth
      + (1 - chance) * mean size (still_owed owed source) (fun y => worth (context ++ [y])))).
    + f_equal; apply functional_extensionality; intros b.
      rewrite <- (IHy context (still_owed owed source) (next_source replaced size source x))
        by auto using still_owed_law, next_is_source.
      rewrite <- draw_tree_factor.
      rewrite <- (draw_tree_const younger context (next_source replaced size source x) (chance * _)) at 1
        by auto using next_is_source.
      rewrite <- draw_tree_plus; f_equal; apply functional_extensionality; intros t; cbn; fold judged.
      rewrite value_app, in_turn_reached, (in_turn_reached t); rewrite minimum_is_Rmin; to_reals; fold chance.
      fold (still_owed owed source); ring.
    + rewrite draw_tree_plus, draw_tree_factor, draw_tree_const by (left; apply drawn_model).
      rewrite IHb by (try left; auto); now rewrite <- steady.
Qed.

Theorem siblings_lossless shapes : lossless size target (siblings_round replaced size target drawn shapes).
Proof using target_model drawn_model.
  intros worth steady context; unfold siblings_round, siblings; fold draw_tree judged; to_reals.
  rewrite siblings_value by (try left; auto); now rewrite <- steady.
Qed.

Theorem siblings_joint_law shapes context tokens :
  probability size target (siblings_round replaced size target drawn shapes) context tokens = joint target context tokens.
Proof using target_model drawn_model. apply lossless_joint_law; auto using siblings_lossless. Qed.

(** The law is a proper one, whatever tokens the tree has: one that was not drawn is surely refused. *)
Theorem siblings_proper context children : is_proper size (siblings replaced size target drawn context children).
Proof using target_model drawn_model.
  enough (scaled : forall reached owed source, 0 <= reached -> is_law size owed -> is_source source ->
    Forall (fun here => 0 <= stop here /\ is_law size (next here)) (judged context reached owed source children)
    /\ stop_total (judged context reached owed source children) = reached).
  { unfold siblings; fold judged; apply scaled; [to_reals; lra | apply target_model | left; apply drawn_model]. }
  revert context; induction children as [| x below IHb younger IHy]; intros context reached owed source some law_o sound.
  - cbn; split; [apply Forall_cons; [| apply Forall_nil]; split; assumption | to_reals; ring].
  - cbn; fold judged; to_reals; set (chance := minimum 1 (ratio (owed x) (source x))).
    assert (0 <= chance <= 1).
    { assert (0 <= ratio (owed x) (source x)).
      - pose proof (nonneg _ _ law_o x); unfold ratio, if_positive; destruct (Rle_lt_dec (source x) 0).
        + rewrite positive_false by assumption; to_reals; lra.
        + rewrite positive_true by assumption; apply Rmult_le_pos; [| apply Rlt_le, Rinv_0_lt_compat]; assumption.
      - unfold chance; cases; lra. }
    destruct (IHb (context ++ [x]) (reached * chance) (target (context ++ [x])) (drawn (context ++ [x])))
      as [fine whole]; [apply Rmult_le_pos; lra | auto | left; auto |].
    destruct (IHy context (reached * (1 - chance)) (still_owed owed source) (next_source replaced size source x))
      as [fine' whole']; [apply Rmult_le_pos; lra | now apply still_owed_law | now apply next_is_source |].
    split; [apply Forall_app; auto |].
    rewrite stop_total_app, whole; unfold still_owed in whole'; rewrite whole'; ring.
Qed.

End SiblingRejection.

(** The two ways of drawing. *)
Theorem independent_siblings_lossless size target drawn shapes :
  is_model size target -> is_model size drawn -> lossless size target (siblings_round true size target drawn shapes).
Proof. intros; now apply siblings_lossless. Qed.

Theorem siblings_without_replacement_lossless size target drawn shapes :
  is_model size target -> is_model size drawn -> lossless size target (siblings_round false size target drawn shapes).
Proof. intros; now apply siblings_lossless. Qed.
