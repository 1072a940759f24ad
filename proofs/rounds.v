(** What "lossless" means for texts, and why any number of rounds is lossless once one is.

    Say that [worth] follows the target if the worth of a text is the mean worth after one more token of the target.
    "The chance that the target, decoding on from here, writes this text" is such a worth. A round is lossless if it
    leaves the mean of each of them as it was. That is equality of laws, for texts of any length; it does not mind that
    a round adds now one token, now five; and it goes from one round to many by one line. *)

From Coq Require Import Reals Lra Lia List Arith FunctionalExtensionality.
From Specproof Require Export main_theorem.

Section Rounds.
Variable size : nat.
Variable target : model (num := R).
Hypothesis target_model : is_model size target.

Definition follows (worth : text -> R) : Prop :=
  forall context, worth context = mean size (target context) (fun x => worth (context ++ [x])).

Definition lossless (turn : round) : Prop :=
  forall worth, follows worth -> forall context, turn context worth = worth context.

(** ** Completion with the target follows the target *)

(** Decoding only looks at texts that begin with the context and are longer by [count]. *)
Lemma decode_ext count context worth worth' :
  (forall more, length more = count -> worth (context ++ more) = worth' (context ++ more)) ->
  decode size target count context worth = decode size target count context worth'.
Proof using.
  revert context; induction count as [| fewer IH]; intros context same; cbn.
  - rewrite <- (app_nil_r context); apply same; reflexivity.
  - apply sum_ext; intros x _; to_reals; f_equal; apply IH.
    intros more fits; rewrite <- !app_assoc; apply same; cbn; now rewrite fits.
Qed.

Lemma decode_zero count context : decode size target count context (fun _ => 0) = 0.
Proof using.
  revert context; induction count as [| fewer IH]; intros context; cbn; [reflexivity |].
  apply sum_zero; intros; rewrite IH; to_reals; ring.
Qed.

Theorem completed_follows total_length worth : follows (completed size target total_length worth).
Proof using target_model.
  intros context; unfold completed; rewrite (mean_ext _ _ _ (fun x =>
    decode size target (total_length - S (length context)) (context ++ [x])
      (fun long => worth (firstn total_length long)))).
  2: { intros; rewrite app_length, Nat.add_1_r; reflexivity. }
  destruct (Nat.lt_ge_cases (length context) total_length) as [short | long].
  - replace (total_length - length context)%nat with (S (total_length - S (length context))) by lia; reflexivity.
  - replace (total_length - length context)%nat with 0%nat by lia.
    replace (total_length - S (length context))%nat with 0%nat by lia; cbn.
    rewrite (mean_ext _ _ _ (fun _ => worth (firstn total_length context))).
    + symmetry; apply mean_const, target_model.
    + intros x _; rewrite firstn_app; replace (total_length - length context)%nat with 0%nat by lia.
      cbn; now rewrite app_nil_r.
Qed.

(** ** The law of the completed text is the target's joint law *)

Lemma is_text_same this : is_text this this = 1.
Proof using. unfold is_text; destruct list_eq_dec; [reflexivity | congruence]. Qed.

Lemma is_text_other this other : other <> this -> is_text this other = 0.
Proof using. unfold is_text; destruct list_eq_dec; [congruence | reflexivity]. Qed.

Lemma decode_joint tokens context :
  decode size target (length tokens) context (is_text (context ++ tokens)) = joint target context tokens.
Proof using target_model.
  revert context; induction tokens as [| x later IH]; intros context; cbn [length decode joint].
  - rewrite app_nil_r; apply is_text_same.
  - set (rest := joint target (context ++ [x]) later).
    transitivity (mean size (target context) (fun y => rest * point x y)).
    + apply mean_ext; intros y _; unfold point; destruct (Nat.eqb_spec y x) as [-> | other].
      * unfold rest; rewrite <- IH, <- app_assoc; to_reals; cbn; ring.
      * rewrite (decode_ext _ _ _ (fun _ => 0)), decode_zero; [to_reals; ring |].
        intros more _; apply is_text_other; rewrite <- app_assoc; intros same.
        apply app_inv_head in same; cbn in same; congruence.
    + rewrite mean_factor, mean_indicator by apply target_model; to_reals; ring.
Qed.

Theorem completed_joint context tokens :
  completed size target (length (context ++ tokens)) (is_text (context ++ tokens)) context = joint target context tokens.
Proof using target_model.
  unfold completed; rewrite app_length.
  replace (length context + length tokens - length context)%nat with (length tokens) by lia.
  rewrite <- decode_joint; apply decode_ext; intros more fits.
  rewrite firstn_all2; [reflexivity | rewrite app_length; lia].
Qed.

(** So the means for [follows] say all: of a lossless round, completed, every text has the probability that the target
    gives it. *)
Theorem lossless_joint_law turn :
  lossless turn -> forall context tokens, probability size target turn context tokens = joint target context tokens.
Proof using target_model.
  intros fine context tokens; unfold probability.
  rewrite fine by apply completed_follows; apply completed_joint.
Qed.

(** ** Any number of rounds; each may be of another kind *)
Theorem rounds_lossless turns : Forall lossless turns -> lossless (rounds turns).
Proof using.
  intros all; induction all as [| turn later fine _ IH]; intros worth steady context; cbn; [reflexivity |].
  replace (fun longer => rounds later longer worth) with worth; [now apply fine |].
  apply functional_extensionality; intros longer; symmetry; now apply IH.
Qed.

(** The kind of round may depend on the text so far: how long, which shape, which drafter, which rule. *)
Theorem chosen_round_lossless (turns : text -> round) :
  (forall context, lossless (turns context)) -> lossless (fun context => turns context context).
Proof using. intros all worth steady context; now apply all. Qed.

End Rounds.
