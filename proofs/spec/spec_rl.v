(** SPEC-RL as published (2509.23232). Twin of [specproof/rules/spec/spec_rl.py]. *)

From Coq Require Import List.
From Specproof.spec Require Import numbers laws.
Import ListNotations.

Section SpecRL.
Context {num : Type} {N : Numbers num}.
Variables (factor : num) (target drawn : model (num := num)).

(** Accept a token with min(1, factor · target/draft); at the first rejection draw from the target itself. *)
Fixpoint spec_rl (context : text) (reached : num) (tokens : list token) : law :=
  match tokens with
  | [] => [Outcome reached context (target context)]
  | x :: later =>
      let accept := minimum one (factor * target context x / drawn context x) in
      Outcome (reached * (one - accept)) context (target context)
      :: spec_rl (context ++ [x]) (reached * accept) later
  end.

End SpecRL.
