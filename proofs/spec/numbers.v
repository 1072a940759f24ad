(** The numbers that a specification computes with, and what it does with rows.

    Twin of [specproof/rules/spec/numbers.py]. A specification is written once, over any [Numbers]: the theorems are
    about its instance [reals], the test against the Python twin computes its instance [rationals]. There is no second
    text that could differ. *)

From Coq Require Import List Arith QArith Qcanon Reals.
Import ListNotations.

(** [+ - * /] and one question. Division by zero is whatever the instance says; no theorem looks at it. *)
Class Numbers (num : Type) := {
  zero : num;
  one : num;
  add : num -> num -> num;
  sub : num -> num -> num;
  mul : num -> num -> num;
  div : num -> num -> num;
  positive : num -> bool;
}.

#[global] Instance reals : Numbers R := {|
  zero := 0%R;
  one := 1%R;
  add := Rplus;
  sub := Rminus;
  mul := Rmult;
  div := Rdiv;
  positive := fun a => if Rlt_dec 0 a then true else false;
|}.

(** Not an instance, so that numbers without a name are real. *)
Definition rationals : Numbers Qc := {|
  zero := 0%Qc;
  one := 1%Qc;
  add := Qcplus;
  sub := Qcminus;
  mul := Qcmult;
  div := Qcdiv;
  positive := fun a => if Qclt_le_dec 0 a then true else false;
|}.

Declare Scope number_scope.
Delimit Scope number_scope with number.
Infix "+" := add : number_scope.
Infix "-" := sub : number_scope.
Infix "*" := mul : number_scope.
Infix "/" := div : number_scope.
Open Scope number_scope.

Section Operations.
Context {num : Type} {N : Numbers num}.

Definition if_positive {A : Type} (a : num) (thus otherwise : A) : A := if positive a then thus else otherwise.
Definition minimum (a b : num) : num := if_positive (b - a) a b.
Definition maximum (a b : num) : num := if_positive (b - a) b a.

(** A token is a number below [size], the size of the vocabulary; a row gives each token its mass. *)
Definition token := nat.
Definition row := token -> num.

Fixpoint sum (size : nat) (values : row) : num :=
  match size with
  | O => zero
  | S smaller => sum smaller values + values smaller
  end.

(** The mean of [values] when the token comes from [source]. *)
Definition mean (size : nat) (source values : row) : num := sum size (fun x => source x * values x).

Definition scaled (factor : num) (source : row) : row := fun x => factor * source x.

(** (target - drawn)⁺, not normalised. *)
Definition excess (target drawn : row) : row := fun x => maximum (target x - drawn x) zero.

(** The row divided by its sum; [fallback] where nothing is left. *)
Definition normalised (size : nat) (source fallback : row) : row :=
  let total := sum size source in
  if_positive total (fun x => source x / total) fallback.

(** Target / drawn; 0 where nothing is drawn: such a token stands for no draw and is surely refused. *)
Definition ratio (target drawn : num) : num := if_positive drawn (target / drawn) zero.

(** The row with nothing at [out]. *)
Definition emptied (source : row) (out : token) : row := fun x => if x =? out then zero else source x.

(** The row once [out] was taken out, normalised; all zero where nothing is left. *)
Definition without (size : nat) (source : row) (out : token) : row :=
  normalised size (emptied source out) (fun _ => zero).

(** A row given as a list of masses, 0 beyond it. *)
Definition listed (masses : list num) : row := fun x => nth x masses zero.

(** All mass at one token. *)
Definition point (here : token) : row := fun x => if x =? here then one else zero.

End Operations.
