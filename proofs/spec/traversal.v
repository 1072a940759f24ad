(** Traversal verification (Weng et al. 2025), for both ways of drawing siblings.

    Twin of [specproof/rules/spec/traversal.py], but for one thing: there, of equal siblings the first one is given the
    nodes below all of them. So the two are the same where siblings differ (without replacement), on chains, and where
    equal siblings have nothing below them. *)

From Coq Require Import List.
From Specproof.spec Require Import numbers laws siblings.
Import ListNotations.

Section Traversal.
Context {num : Type} {N : Numbers num}.
Variable replaced : bool.  (* independent siblings; else all different *)
Variables (size : nat) (target drawn : model (num := num)).

(** Test the first leaf, give it up, let its parent answer for it, and so on until the root is a leaf.
    [alive] is the probability that nothing was accepted so far. Gives the law of the ends in this part of the tree, and
    what is alive after it. *)
Fixpoint bottom_up (context : text) (alive weight : num) (owed source : row) (children : tree) : law * num :=
  match children with
  | leaf => ([Outcome (alive * weight) context owed], alive * (one - weight))
  | node x below younger =>
      let (ends, alive_then) :=
        bottom_up (context ++ [x]) alive (minimum one (weight * ratio (owed x) (source x)))
          (target (context ++ [x])) (drawn (context ++ [x])) below in
      let gap := excess (scaled weight owed) source in
      let left := sum size gap in
      let miss := one - weight in
      let (others, alive_last) :=
        bottom_up context alive_then (if_positive (left + miss) (left / (left + miss)) one)
          (normalised size gap owed) (next_source replaced size source x) younger in
      (ends ++ others, alive_last)
  end.

Definition traversal (context : text) (children : tree) : law :=
  fst (bottom_up context one one (target context) (drawn context) children).

(** One round; the shape may depend on the context. *)
Definition traversal_round (shapes : text -> shape) : round := fun context worth =>
  draw_tree replaced size drawn context (drawn context) (shapes context)
    (fun children => value size (traversal context children) worth).

End Traversal.
