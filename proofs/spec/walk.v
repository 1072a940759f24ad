(** The target walk (Miao et al. 2023, naive sampling). Twin of [specproof/rules/spec/walk.py]. *)

From Coq Require Import List.
From Specproof.spec Require Import numbers laws.
Import ListNotations.

Section Walk.
Context {num : Type} {N : Numbers num}.
Variables (size : nat) (target : model (num := num)).

(** Draw from the target and follow the child with that token; stop where there is none.
    [rest] is what the elder siblings left of the target row: of equal siblings the first one takes the whole mass. *)
Fixpoint walk_from (context : text) (reached : num) (rest : row) (children : tree) : law :=
  match children with
  | leaf => [Outcome (reached * sum size rest) context (normalised size rest (target context))]
  | node x below younger =>
      walk_from (context ++ [x]) (reached * rest x) (target (context ++ [x])) below
      ++ walk_from context reached (emptied rest x) younger
  end.

Definition walk (context : text) (children : tree) : law := walk_from context one (target context) children.

End Walk.
