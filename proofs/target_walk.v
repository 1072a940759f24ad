(** The target walk on any finite tree: draw from the target, go on where the token was drafted.

    Whoever drafted the tree, and however: a table, a greedy draft (EAGLE-2's trees), samples. The walk never asks.
    Only the draft must not know the walk's draws. *)

From Coq Require Import Reals Lra Lia List Arith FunctionalExtensionality.
From Specproof Require Export drafts.
From Specproof.spec Require Export walk.

Section TargetWalk.
Variable size : nat.
Variable target : model (num := R).
Hypothesis target_model : is_model size target.

(** A row with one token taken out, and that token: the whole row. *)
Lemma mean_emptied (rest worth : row) x :
  (forall y, (size <= y)%nat -> rest y = 0) ->
  mean size rest worth = rest x * worth x + mean size (emptied rest x) worth.
Proof using.
  intros off; destruct (Nat.lt_ge_cases x size) as [inside | far].
  - replace (rest x * worth x) with (mean size (fun y => if (y =? x)%nat then rest x else 0) worth).
    + rewrite <- mean_rows_plus; apply sum_ext; intros y _; unfold emptied; to_reals.
      destruct (Nat.eqb_spec y x) as [-> |]; ring.
    + unfold mean; rewrite (sum_at _ _ x); [now rewrite Nat.eqb_refl | assumption |].
      intros y other; apply Nat.eqb_neq in other; rewrite other; to_reals; ring.
  - rewrite (off x far); unfold mean; to_reals; rewrite Rmult_0_l, Rplus_0_l.
    apply sum_ext; intros y inside; unfold emptied.
    replace (y =? x)%nat with false by (symmetry; apply Nat.eqb_neq; lia); reflexivity.
Qed.

(** What is still to be drawn at a node is [rest]; the walk below it and beside it gives exactly that much. *)
Lemma walk_value worth : follows size target worth -> forall children context reached rest,
  (forall x, 0 <= rest x) -> (forall x, (size <= x)%nat -> rest x = 0) ->
  value size (walk_from size target context reached rest children) worth =
  reached * mean size rest (fun y => worth (context ++ [y])).
Proof using target_model.
  intros steady; induction children as [| x below IHbelow younger IHyounger]; intros context reached rest above off; cbn.
  - (* no child (more): the extra token is what is left *)
    to_reals; rewrite Rmult_assoc, sum_times_mean_normalised by assumption; ring.
  - (* the child's share moves on, and is worth what the target makes of it *)
    rewrite value_app, IHbelow, IHyounger by (try apply target_model; unfold emptied; intros; destruct (_ =? _);
      to_reals; auto; lra).
    rewrite <- steady, (mean_emptied rest _ x) by assumption; to_reals; ring.
Qed.

(** On each tree. *)
Theorem walk_of_a_tree children worth context :
  follows size target worth -> value size (walk size target context children) worth = worth context.
Proof using target_model.
  intros steady; unfold walk; rewrite walk_value by (auto; apply target_model).
  rewrite (steady context); to_reals; ring.
Qed.

(** On trees drawn in any way: [draft context] is the mean over the trees drawn there. *)
Definition walk_round (draft : text -> (tree -> R) -> R) : round := fun context worth =>
  draft context (fun children => value size (walk size target context children) worth).

Theorem walk_lossless (draft : text -> (tree -> R) -> R) :
  (forall context a, draft context (fun _ => a) = a) -> lossless size target (walk_round draft).
Proof using target_model.
  intros whole worth steady context; unfold walk_round; rewrite <- (whole context (worth context)); f_equal.
  apply functional_extensionality; intros children; now apply walk_of_a_tree.
Qed.

(** A tree of point drafts: a function of the context. *)
Theorem point_tree_joint_law (drafted : text -> tree) context tokens :
  probability size target (walk_round (fun context then_ => then_ (drafted context))) context tokens =
  joint target context tokens.
Proof using target_model. apply lossless_joint_law, walk_lossless; auto. Qed.

(** The law is a proper one, for every tree. *)
Lemma emptied_total (rest : row) x :
  (forall y, (size <= y)%nat -> rest y = 0) -> sum size rest = rest x + sum size (emptied rest x).
Proof using.
  intros off; pose proof (mean_emptied rest (fun _ => 1) x off) as parts; unfold mean in parts; to_reals.
  rewrite !(sum_ext size (fun y => (_ y * 1)%R) _ (fun y _ => Rmult_1_r _)) in parts; lra.
Qed.

Theorem walk_proper context children : is_proper size (walk size target context children).
Proof using target_model.
  enough (scaled : forall reached rest, 0 <= reached -> (forall x, 0 <= rest x) ->
    (forall x, (size <= x)%nat -> rest x = 0) ->
    Forall (fun here => 0 <= stop here /\ is_law size (next here)) (walk_from size target context reached rest children)
    /\ stop_total (walk_from size target context reached rest children) = reached * sum size rest).
  { destruct (scaled 1 (target context)) as [fine whole]; [lra | apply target_model | apply target_model |].
    split; [exact fine |]; unfold walk; to_reals; rewrite whole, (total _ _ (target_model context)); ring. }
  revert context; induction children as [| x below IHbelow younger IHyounger];
    intros context reached rest some above off; cbn.
  - split; [apply Forall_cons; [| apply Forall_nil]; cbn | to_reals; ring].
    split; [apply Rmult_le_pos; [assumption | apply sum_nonneg; auto] | now apply normalised_law].
  - destruct (IHbelow (context ++ [x]) (reached * rest x) (target (context ++ [x]))) as [fine whole];
      [apply Rmult_le_pos; auto | apply target_model | apply target_model |].
    destruct (IHyounger context reached (emptied rest x)) as [fine' whole'];
      [assumption | unfold emptied; intros; destruct (_ =? _)%nat; to_reals; auto; lra
      | unfold emptied; intros; destruct (_ =? _)%nat; to_reals; auto |].
    split; [apply Forall_app; auto |].
    rewrite stop_total_app; to_reals; rewrite whole, whole', (emptied_total rest x off).
    rewrite (total _ _ (target_model (context ++ [x]))); ring.
Qed.

End TargetWalk.
