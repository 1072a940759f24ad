(** Recursive rejection over siblings, for both ways of drawing them (Miao et al. 2023, algorithm 2; Li et al. 2024,
    A.2). Twin of [specproof/rules/spec/siblings.py]. *)

From Coq Require Import List.
From Specproof.spec Require Import numbers laws.
Import ListNotations.

Section Siblings.
Context {num : Type} {N : Numbers num}.
Variable replaced : bool.  (* independent siblings; else all different *)
Variables (size : nat) (target drawn : model (num := num)).

(** What the next sibling comes from, and is tested against. *)
Definition next_source (source : row) (x : token) : row := if replaced then source else without size source x.

(** [owed] is the law still to be met at [context], [source] what the next child comes from. *)
Fixpoint in_turn (context : text) (reached : num) (owed source : row) (children : tree) : law :=
  match children with
  | leaf => [Outcome reached context owed]
  | node x below younger =>
      let accept := minimum one (ratio (owed x) (source x)) in
      in_turn (context ++ [x]) (reached * accept) (target (context ++ [x])) (drawn (context ++ [x])) below
      ++ in_turn context (reached * (one - accept))
           (normalised size (excess owed source) owed) (next_source source x) younger
  end.

Definition siblings (context : text) (children : tree) : law :=
  in_turn context one (target context) (drawn context) children.

(** One token from what is left of a row. Where nothing is left, token 0 stands for no draw; it is surely refused. *)
Definition draw (source : row) (then_ : token -> num) : num :=
  if_positive (sum size source) (mean size source then_) (then_ O).

(** A tree of a given shape: siblings one after the other, and below each a draft of its own. *)
Fixpoint draw_tree (context : text) (source : row) (children : shape) (then_ : tree -> num) : num :=
  match children with
  | nothing => then_ leaf
  | child below younger =>
      draw source (fun x =>
        draw_tree (context ++ [x]) (drawn (context ++ [x])) below (fun drafted_below =>
          draw_tree context (next_source source x) younger (fun drafted_younger =>
            then_ (node x drafted_below drafted_younger))))
  end.

(** One round; the shape may depend on the context. *)
Definition siblings_round (shapes : text -> shape) : round := fun context worth =>
  draw_tree context (drawn context) (shapes context) (fun children => value size (siblings context children) worth).

End Siblings.
