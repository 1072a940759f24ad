(** Lenient rejection (Leviathan et al. 2023, A.5). Twin of [specproof/rules/spec/lenience.py]. *)

From Coq Require Import List.
From Specproof.spec Require Import numbers laws.
Import ListNotations.

Section Lenience.
Context {num : Type} {N : Numbers num}.
Variables (share : num) (size : nat) (target drawn : model (num := num)).

(** Accept a token with min(1, target / (share · draft)); else draw from (target - share · draft)⁺. *)
Fixpoint lenience (context : text) (reached : num) (tokens : list token) : law :=
  match tokens with
  | [] => [Outcome reached context (target context)]
  | x :: later =>
      let less := scaled share (drawn context) in
      let accept := minimum one (target context x / less x) in
      Outcome (reached * (one - accept)) context
        (normalised size (excess (target context) less) (target context))
      :: lenience (context ++ [x]) (reached * accept) later
  end.

(** One round: a chain is drawn, and judged. *)
Definition lenience_round (longer : text -> bool) (most : nat) : round := fun context worth =>
  draw_chain size drawn longer most context (fun tokens => value size (lenience context one tokens) worth).

End Lenience.
