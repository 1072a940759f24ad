(** Texts, models, laws, and what a round of speculative decoding makes of them.

    A rule returns a law, not a sample (docs/design.md, 2): where verification stops and from what row the extra token
    then comes. Twin of [SpecLaw]; it carries the accepted text as well, so that it can be read alone. *)

From Coq Require Import List.
From Specproof.spec Require Import numbers.
Import ListNotations.

Section Laws.
Context {num : Type} {N : Numbers num}.
Variable size : nat.

Definition text := list token.

(** A model says for every text what row the next token comes from. Nothing relates the rows of different texts. *)
Definition model := text -> row (num := num).

(** With probability [stop], the text is [kept] (context and accepted tokens) and one token from [next]. *)
Record outcome := Outcome { stop : num; kept : text; next : row (num := num) }.
Definition law := list outcome.

(** The mean, under a law, of whatever [worth] says of the text. *)
Fixpoint value (l : law) (worth : text -> num) : num :=
  match l with
  | [] => zero
  | here :: others => stop here * mean size (next here) (fun y => worth (kept here ++ [y])) + value others worth
  end.

(** A round turns a context into a longer text at random. It is given by the means of all [worth]; its probabilities
    are those means for indicators. *)
Definition round := text -> (text -> num) -> num.

(** A drafted chain: before each token, [longer] may look at the text so far and end the draft. [most] bounds it. *)
Fixpoint draw_chain (drawn : model) (longer : text -> bool) (most : nat) (context : text) (then_ : text -> num) : num :=
  match most with
  | O => then_ []
  | S fewer =>
      if longer context
      then mean size (drawn context) (fun x =>
             draw_chain drawn longer fewer (context ++ [x]) (fun tokens => then_ (x :: tokens)))
      else then_ []
  end.

(** Decoding without speculation, until the text has [count] more tokens. *)
Fixpoint decode (target : model) (count : nat) (context : text) (worth : text -> num) : num :=
  match count with
  | O => worth context
  | S fewer => mean size (target context) (fun x => decode target fewer (context ++ [x]) worth)
  end.

(** Completed with the target to [total] tokens, and cut there: texts of different lengths become comparable. *)
Definition completed (target : model) (total : nat) (worth : text -> num) (context : text) : num :=
  decode target (total - length context) context (fun long => worth (firstn total long)).

(** The probability that the target, decoding alone, goes on with these tokens. *)
Fixpoint joint (target : model) (context tokens : text) : num :=
  match tokens with
  | [] => one
  | x :: later => target context x * joint target (context ++ [x]) later
  end.

Definition is_text (this other : text) : num := if list_eq_dec PeanoNat.Nat.eq_dec other this then one else zero.

(** The probability that a round from [context], completed to the length of [context ++ tokens], gives that text. *)
Definition probability (target : model) (turn : round) (context tokens : text) : num :=
  turn context (completed target (length (context ++ tokens)) (is_text (context ++ tokens))).

(** Rounds one after the other. *)
Fixpoint rounds (turns : list round) : round := fun context worth =>
  match turns with
  | [] => worth context
  | turn :: later => turn context (fun longer => rounds later longer worth)
  end.

(** Any draft below a context: the nodes below the first one, and its younger siblings. *)
Inductive tree := leaf | node (drafted : token) (below younger : tree).

(** The shape of a tree, chosen before anything is drawn. *)
Inductive shape := nothing | child (below younger : shape).

End Laws.

Arguments Outcome {num}.
Arguments stop {num}.
Arguments kept {num}.
Arguments next {num}.
