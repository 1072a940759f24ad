(** Gumbel coupling (Daliri, Musco, Suresh 2024). Twin of [specproof/rules/spec/coupling.py]; its law is [walk]. *)

From Specproof.spec Require Import numbers laws.

Section Coupling.
Context {num : Type} {N : Numbers num}.
Variables (size : nat) (target drawn : row (num := num)).

Definition slowest (i : token) : num := sum size (fun x => maximum (target x / target i) (drawn x / drawn i)).

(** Sum over tokens i of 1 / sum_j max(target_j / target_i, draft_j / draft_i). *)
Definition match_probability : num :=
  sum size (fun i => if_positive (target i * drawn i) (one / slowest i) zero).

End Coupling.
