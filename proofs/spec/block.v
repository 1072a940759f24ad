(** Block verification (Sun et al. 2024, algorithm 2). Twin of [specproof/rules/spec/block.py]. *)

From Coq Require Import List.
From Specproof.spec Require Import numbers laws.
Import ListNotations.

Section Block.
Context {num : Type} {N : Numbers num}.
Variables (size : nat) (target drawn : model (num := num)).

(** Each node may be the end with probability [passes]; the longest end that passes is taken. Gives the law of the ends
    from [context] on, and the probability that none of them passes. *)
Fixpoint block_from (context : text) (weight : num) (tokens : list token) : law * num :=
  match tokens with
  | [] => ([Outcome weight context (target context)], one - weight)
  | x :: later =>
      let gap := excess (scaled weight (target context)) (drawn context) in
      let left := sum size gap in
      let miss := one - weight in
      let passes := if_positive (left + miss) (left / (left + miss)) one in
      let (ends, none_later) :=
        block_from (context ++ [x]) (minimum one (weight * target context x / drawn context x)) later in
      (Outcome (passes * none_later) context (normalised size gap (target context)) :: ends,
       none_later * (one - passes))
  end.

Definition block (context : text) (tokens : list token) : law := fst (block_from context one tokens).

(** One round: a chain is drawn, and judged. *)
Definition block_round (longer : text -> bool) (most : nat) : round := fun context worth =>
  draw_chain size drawn longer most context (fun tokens => value size (block context tokens) worth).

End Block.
