(** Token-by-token rejection along a chain of any length: the text has the target's joint law.

    Leviathan et al. 2023, section 2.3. Rows may depend on all of the text, and the length of the draft on what was
    drafted so far ([longer]); what must not be is that a token is drawn and then dropped for its own value
    (mistakes.v). The usual induction: where the context is the same for draft and target, the main theorem holds; an
    accepted token extends the context of both. *)

From Coq Require Import Reals Lra List Arith FunctionalExtensionality.
From Specproof Require Export drafts.
From Specproof.spec Require Export rejection.

Section Chain.
Variable size : nat.
Variables target drawn : model (num := R).
Hypothesis target_model : is_model size target.
Hypothesis drawn_model : is_model size drawn.

(** What was reached only scales the rest. *)
Lemma rejection_reached context reached tokens worth :
  value size (rejection size target drawn context reached tokens) worth =
  reached * value size (rejection size target drawn context 1 tokens) worth.
Proof using.
  revert context reached; induction tokens as [| x later IH]; intros; cbn; to_reals; [ring |].
  rewrite IH, (IH _ (1 * _)); ring.
Qed.

(** One step of the induction: the first token of a draft, and then the rest. *)
Lemma rejection_step context x later worth :
  value size (rejection size target drawn context 1 (x :: later)) worth =
  (1 - accept (target context) (drawn context) x)
    * mean size (residual size (target context) (drawn context)) (fun y => worth (context ++ [y]))
  + accept (target context) (drawn context) x
    * value size (rejection size target drawn (context ++ [x]) 1 later) worth.
Proof using. cbn; to_reals; rewrite rejection_reached; unfold accept, residual; to_reals; ring. Qed.

Theorem rejection_lossless longer most : lossless size target (rejection_round size target drawn longer most).
Proof using target_model drawn_model.
  intros worth steady; induction most as [| fewer IH]; intros context; unfold rejection_round; cbn [draw_chain].
  - (* nothing is drafted: one token of the target *)
    cbn; to_reals; rewrite (steady context); ring.
  - destruct (longer context); [| cbn; to_reals; rewrite (steady context); ring].
    (* the first token is kept, and what follows is a shorter chain below it; or it is replaced *)
    rewrite (steady context).
    rewrite <- (single_draft_mean size (target context) (drawn context)) by auto.
    apply mean_ext; intros x _.
    transitivity (draw_chain size drawn longer fewer (context ++ [x]) (fun later =>
      (1 - accept (target context) (drawn context) x)
        * mean size (residual size (target context) (drawn context)) (fun y => worth (context ++ [y]))
      + accept (target context) (drawn context) x
        * value size (rejection size target drawn (context ++ [x]) 1 later) worth)).
    { f_equal; apply functional_extensionality; intros later; apply rejection_step. }
    rewrite draw_chain_plus, draw_chain_const, draw_chain_factor by assumption.
    unfold rejection_round in IH; cbn in IH; rewrite IH; ring.
Qed.

(** The same, written out: the completed text of a round has the target's joint law. With [most] = γ and γ + 1 [tokens]
    it is the law of the block; with more it is the law of any longer text. *)
Theorem chain_joint_law longer most context tokens :
  probability size target (rejection_round size target drawn longer most) context tokens = joint target context tokens.
Proof using target_model drawn_model. apply lossless_joint_law; auto using rejection_lossless. Qed.

(** Any number of rounds. *)
Theorem chain_rounds_joint_law count longer most context tokens :
  probability size target (rounds (repeat (rejection_round size target drawn longer most) count)) context tokens =
  joint target context tokens.
Proof using target_model drawn_model.
  apply lossless_joint_law; [assumption |]; apply rounds_lossless.
  apply Forall_forall; intros turn among; apply repeat_spec in among as ->; apply rejection_lossless.
Qed.

(** The law of a draft that can be drawn is a proper one. *)
Theorem rejection_proper context tokens :
  drawable drawn context tokens -> is_proper size (rejection size target drawn context 1 tokens).
Proof using target_model drawn_model.
  enough (scaled : forall reached, 0 <= reached -> drawable drawn context tokens ->
    Forall (fun here => 0 <= stop here /\ is_law size (next here)) (rejection size target drawn context reached tokens)
    /\ stop_total (rejection size target drawn context reached tokens) = reached) by (apply scaled; lra).
  revert context; induction tokens as [| x later IH]; intros context reached some able; cbn.
  - split; [apply Forall_cons; [split; [assumption | apply target_model] | apply Forall_nil] | to_reals; ring].
  - destruct able as [here below].
    pose proof (accept_is_probability size _ _ (target_model context) x here) as chance; unfold accept in chance.
    destruct (IH (context ++ [x]) (reached * minimum 1 (target context x / drawn context x))) as [fine whole]; auto.
    + apply Rmult_le_pos; lra.
    + split; [apply Forall_cons; [| exact fine]; cbn |].
      * split; [to_reals; apply Rmult_le_pos; lra | now apply residual_law].
      * to_reals; rewrite whole; ring.
Qed.

End Chain.
