(** Standardized sampling: temperature, top-k, top-p, penalties and masks are folded into the rows first, and nothing
    changes (Leviathan et al. 2023, section 2.2).

    A folding is any function of the text and of the logits that gives rows. Target and draft may fold differently: the
    text has the law of the folded target. All that counts is that a draft is judged by the rows that it was drawn from. *)

From Coq Require Import Reals Lra Lia List Arith.
From Specproof Require Export chain sibling_rejection block_verification.

Section Standardized.
Variable size : nat.

(** Logits are whatever a network gives for a text; a folding sees the text too (penalties, grammars). *)
Variable logits : Type.
Definition network := text -> logits.
Definition folding := text -> logits -> row (num := R).
Definition gives_rows (fold : folding) : Prop := forall context given, is_law size (fold context given).
Definition folded (fold : folding) (net : network) : model (num := R) := fun context => fold context (net context).

Lemma folded_model fold net : gives_rows fold -> is_model size (folded fold net).
Proof using. intros rows context; apply rows. Qed.

Variables target draft : network.
Variables target_folding draft_folding : folding.
Hypothesis target_rows : gives_rows target_folding.
Hypothesis draft_rows : gives_rows draft_folding.

Let p := folded target_folding target.
Let q := folded draft_folding draft.

Theorem folded_rejection_lossless longer most : lossless size p (rejection_round size p q longer most).
Proof using target_rows draft_rows. apply rejection_lossless; now apply folded_model. Qed.

Theorem folded_block_lossless longer most : lossless size p (block_round size p q longer most).
Proof using target_rows draft_rows. apply block_lossless; now apply folded_model. Qed.

Theorem folded_siblings_lossless replaced shapes : lossless size p (siblings_round replaced size p q shapes).
Proof using target_rows draft_rows. apply siblings_lossless; now apply folded_model. Qed.

(** The draft's parameters do not show: with any two of them the text has the same law. *)
Theorem draft_parameters_do_not_show other_folding longer most context tokens :
  gives_rows other_folding ->
  probability size p (rejection_round size p q longer most) context tokens =
  probability size p (rejection_round size p (folded other_folding draft) longer most) context tokens.
Proof using target_rows draft_rows. 
  intros; transitivity (joint p context tokens); [| symmetry]; apply chain_joint_law; now apply folded_model.
 Qed.

End Standardized.

(** ** The usual foldings give rows *)

(** Temperature 0: all mass at one token of the vocabulary. *)
Theorem argmax_gives_rows size logits (best : text -> logits -> token) :
  (forall context given, (best context given < size)%nat) ->
  gives_rows size logits (fun context given => point (best context given)).
Proof. intros inside context given; now apply point_law. Qed.

(** The softmax at a temperature. *)
Definition softmax size (temperature : R) (given : nat -> R) : row := fun x =>
  if (x <? size)%nat then exp (given x / temperature) / sum size (fun y => exp (given y / temperature)) else 0.

Theorem softmax_gives_rows size temperature :
  (0 < size)%nat -> gives_rows size (nat -> R) (fun _ => softmax size temperature).
Proof.
  intros some _ given; unfold softmax.
  assert (positive_sum : 0 < sum size (fun y => exp (given y / temperature))).
  { destruct size as [| n]; [lia |]; cbn.
    assert (0 <= sum n (fun y => exp (given y / temperature))) by (apply sum_nonneg; intros; apply Rlt_le, exp_pos).
    pose proof (exp_pos (given n / temperature)); lra. }
  split.
  - intros x; destruct (x <? size)%nat; [| lra].
    apply Rmult_le_pos; [apply Rlt_le, exp_pos | apply Rlt_le, Rinv_0_lt_compat, positive_sum].
  - intros x far; replace (x <? size)%nat with false by (symmetry; apply Nat.ltb_ge; assumption); reflexivity.
  - rewrite (sum_ext _ _ (fun x => / sum size (fun y => exp (given y / temperature)) * exp (given x / temperature))).
    + rewrite sum_factor; field; lra.
    + intros x inside; replace (x <? size)%nat with true by (symmetry; apply Nat.ltb_lt; assumption).
      field; lra.
Qed.

(** A filter (top-k, top-p, min-p, a mask): keeps some tokens of a row and normalises. [fallback] is never used where
    something is kept. *)
Definition filtered size (keeps : row (num := R) -> token -> bool) (given : row) : row :=
  normalised size (fun x => if keeps given x then given x else 0) given.

Theorem filtered_law size keeps given : is_law size given -> is_law size (filtered size keeps given).
Proof.
  intros fine; apply normalised_law; [| | assumption]; intros x; destruct (keeps given x); try lra; apply fine.
Qed.

(** Filters follow one another. *)
Theorem filter_gives_rows size logits (fold : folding logits) keeps :
  gives_rows size logits fold -> gives_rows size logits (fun context given => filtered size keeps (fold context given)).
Proof. intros rows context given; apply filtered_law, rows. Qed.
