(** Drawing a draft is a mean: it can be taken apart like one. Used by every theorem about rounds. *)

From Coq Require Import Reals Lra List Arith FunctionalExtensionality.
From Specproof Require Export rounds.

Section Chains.
Variable size : nat.
Variable drawn : model (num := R).
Variable longer : text -> bool.
Hypothesis drawn_model : is_model size drawn.

Lemma draw_chain_plus most context f g :
  draw_chain size drawn longer most context (fun tokens => f tokens + g tokens) =
  draw_chain size drawn longer most context f + draw_chain size drawn longer most context g.
Proof using.
  revert context f g; induction most as [| fewer IH]; intros; cbn; [reflexivity |].
  destruct (longer context); [| reflexivity].
  rewrite <- mean_plus; apply mean_ext; intros x _; apply IH.
Qed.

Lemma draw_chain_factor most context a f :
  draw_chain size drawn longer most context (fun tokens => a * f tokens) =
  a * draw_chain size drawn longer most context f.
Proof using.
  revert context f; induction most as [| fewer IH]; intros; cbn; [reflexivity |].
  destruct (longer context); [| reflexivity].
  rewrite <- mean_factor; apply mean_ext; intros x _; apply IH.
Qed.

Lemma draw_chain_const most context a : draw_chain size drawn longer most context (fun _ => a) = a.
Proof using drawn_model.
  revert context; induction most as [| fewer IH]; intros; cbn; [reflexivity |].
  destruct (longer context); [| reflexivity].
  rewrite (mean_ext _ _ _ (fun _ => a)) by (intros; apply IH); apply mean_const, drawn_model.
Qed.

End Chains.

(** The mean under two laws written one after the other. *)
Lemma value_app size (l l' : law) (worth : text -> R) :
  value size (l ++ l') worth = value size l worth + value size l' worth.
Proof. induction l as [| here others IH]; cbn; to_reals; [ring | rewrite IH; ring]. Qed.

(** ** Proper laws: what a rule calls probabilities and rows are such *)
Fixpoint stop_total (l : law) : R :=
  match l with
  | [] => 0
  | here :: others => stop here + stop_total others
  end.

Definition is_proper size (l : law) : Prop :=
  Forall (fun here => 0 <= stop here /\ is_law size (next here)) l /\ stop_total l = 1.

Lemma stop_total_app l l' : stop_total (l ++ l') = stop_total l + stop_total l'.
Proof. induction l as [| here others IH]; cbn; [ring | rewrite IH; ring]. Qed.

(** A draft that can be drawn: no token with mass 0. *)
Fixpoint drawable (drawn : model (num := R)) (context : text) (tokens : list token) : Prop :=
  match tokens with
  | [] => True
  | x :: later => 0 < drawn context x /\ drawable drawn (context ++ [x]) later
  end.
