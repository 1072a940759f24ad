(** Token-by-token rejection (Leviathan et al. 2023, section 2.3). Twin of [specproof/rules/spec/rejection.py]. *)

From Coq Require Import List.
From Specproof.spec Require Import numbers laws.
Import ListNotations.

Section Rejection.
Context {num : Type} {N : Numbers num}.
Variables (size : nat) (target drawn : model (num := num)).

(** Accept a token with min(1, target/draft); at the first rejection draw from the residual.
    [reached] is the probability that everything up to [context] was accepted. *)
Fixpoint rejection (context : text) (reached : num) (tokens : list token) : law :=
  match tokens with
  | [] => [Outcome reached context (target context)]
  | x :: later =>
      let accept := minimum one (target context x / drawn context x) in
      Outcome (reached * (one - accept)) context
        (normalised size (excess (target context) (drawn context)) (target context))
      :: rejection (context ++ [x]) (reached * accept) later
  end.

(** One round: a chain is drawn, and judged. *)
Definition rejection_round (longer : text -> bool) (most : nat) : round := fun context worth =>
  draw_chain size drawn longer most context (fun tokens => value size (rejection context one tokens) worth).

End Rejection.
