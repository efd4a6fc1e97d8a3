package mutate

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// Operators says what each operator does, by its name.
var Operators = map[string]string{
	"always":   "a condition is true",
	"never":    "a condition is false",
	"boundary": "< is <=, > is >=, and back",
	"sign":     "+ is -, and back",
	"minmax":   "min is max, and back",
	"one":      "0 is 1, and back",
	"flip":     "true is false, and back",
	"zero":     "a value is the zero value of its type",
	"noerror":  "an error that is returned is nil",
	"drop":     "a statement is left out",
	"goon":     "a return, break or continue is left out",
	"case":     "the body of a case or an else is left out",
	"swap":     "a statement is made after the next one",
	"empty":    "a function does nothing and returns zero values",
}

// finder makes the mutants of one function.
type finder struct {
	pkg  *source
	file *sourceFile
	fn   string
	n    map[string]int // of each operator
	last ast.Stmt       // of the function: without it nothing follows
	bool map[ast.Expr]bool
}

// add makes a mutant of a node.
func (f *finder) add(op string, at ast.Node, edits ...edit) {
	f.n[op]++
	f.pkg.mutants = append(f.pkg.mutants, &made{
		Mutant: Mutant{
			Package: f.pkg.rel, Func: f.fn, Op: op, Index: f.n[op], File: f.file.rel,
			Line: f.pkg.fset.Position(at.Pos()).Line, Text: f.file.oneLine(f.off(at.Pos()), f.off(at.End())),
		},
		file: f.file, edits: edits,
	})
}

func (f *finder) off(p token.Pos) int { return f.pkg.fset.Position(p).Offset }

// around is an edit that puts text before and after a node. In text, %N is the mutant's number.
func (f *finder) around(n ast.Node, before, after string) edit {
	return edit{at: f.off(n.Pos()), end: f.off(n.End()), before: before, after: after}
}

// call is an edit that writes a call in place of a binary expression.
func (f *finder) call(n *ast.BinaryExpr, name string) edit {
	e := f.around(n, name+"(%N, ", ")")
	e.token, e.tokenEnd, e.with = f.off(n.OpPos), f.off(n.OpPos)+len(n.Op.String()), ","
	return e
}

func (f *finder) condition(e ast.Expr, loop bool) {
	if f.bool[e] || f.constant(e) {
		return
	}
	f.bool[e] = true
	inner := ast.Unparen(e)
	f.bool[inner] = true
	if !loop {
		f.add("always", e, f.around(e, "(", " || mutant(%N))"))
	}
	f.add("never", e, f.around(e, "(", " && !mutant(%N))"))
	for not, ok := inner.(*ast.UnaryExpr); ok; not, ok = inner.(*ast.UnaryExpr) {
		f.bool[not.X] = true // !x is x in reverse
		inner = ast.Unparen(not.X)
		f.bool[inner] = true
	}
	if x, ok := inner.(*ast.BinaryExpr); ok && (x.Op == token.LAND || x.Op == token.LOR) {
		f.condition(x.X, false)
		f.condition(x.Y, false)
	}
}

func (f *finder) constant(e ast.Expr) bool { return f.pkg.info.Types[e].Value != nil }

// function makes the mutants of a function's body.
func (f *finder) function(sig *ast.FuncType, body *ast.BlockStmt, named bool) {
	if len(body.List) == 0 {
		return
	}
	f.last = body.List[len(body.List)-1]
	if zero, ok := f.zeros(sig.Results); ok && named {
		f.add("empty", sig, edit{at: f.off(body.Lbrace) + 1, end: -1, before: " if mutant(%N) { return " + zero + " }; "})
	}
	ast.Inspect(body, f.node)
}

// zeros is what a function returns that does nothing.
func (f *finder) zeros(results *ast.FieldList) (string, bool) {
	var all []string
	if results == nil {
		return "", true
	}
	for _, r := range results.List {
		t := string(f.file.text[f.off(r.Type.Pos()):f.off(r.Type.End())])
		if strings.Contains(t, "\n") {
			return "", false
		}
		for range max(len(r.Names), 1) {
			all = append(all, "*new("+t+")")
		}
	}
	return strings.Join(all, ", "), true
}

func (f *finder) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncLit:
		inner := *f
		inner.function(n.Type, n.Body, false)
		if n.Type.Results != nil {
			f.ends(n.Body)
		}
		return false
	case *ast.IfStmt:
		f.condition(n.Cond, false)
		if b, ok := n.Else.(*ast.BlockStmt); ok {
			f.body(n.Else, b.List)
		}
	case *ast.ForStmt:
		if n.Cond != nil {
			f.condition(n.Cond, true)
		}
	case *ast.SwitchStmt:
		for _, c := range n.Body.List {
			if c := c.(*ast.CaseClause); n.Tag == nil {
				for _, e := range c.List {
					f.condition(e, false)
				}
			}
		}
	case *ast.BlockStmt:
		f.list(n.List)
	case *ast.CaseClause:
		f.body(n, n.Body)
		f.list(n.Body)
	case *ast.CommClause:
		f.body(n, n.Body)
		f.list(n.Body)
	case *ast.ReturnStmt:
		f.values(n)
	case *ast.CompositeLit, *ast.ArrayType, *ast.GenDecl:
		return f.composite(n)
	case *ast.AssignStmt:
		if len(n.Lhs) == len(n.Rhs) && n.Tok == token.DEFINE {
			for _, r := range n.Rhs {
				f.zero(r)
			}
		}
	case ast.Expr:
		f.expr(n)
	}
	return true
}

func (f *finder) composite(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CompositeLit:
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				if _, field := kv.Key.(*ast.Ident); field {
					f.zero(kv.Value)
				}
			}
		}
	case *ast.ArrayType:
		return false
	case *ast.GenDecl:
		return n.Tok == token.VAR
	}
	return true
}

// body makes a mutant without the body of a case or an else.
func (f *finder) body(of ast.Node, list []ast.Stmt) {
	if len(list) == 0 || len(list) == 1 && f.droppable(list[0]) {
		return // the same as a statement that is dropped
	}
	if b, ok := list[len(list)-1].(*ast.BranchStmt); ok && b.Tok == token.FALLTHROUGH {
		return
	}
	f.add("case", of, edit{at: f.off(list[0].Pos()), end: f.off(list[len(list)-1].End()), before: "if !mutant(%N) { ", after: " }"})
}

func (f *finder) droppable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt:
		return !f.locks(s.X)
	case *ast.DeferStmt:
		return !f.locks(s.Call)
	case *ast.AssignStmt:
		blank := true
		for _, l := range s.Lhs {
			id, ok := l.(*ast.Ident)
			blank = blank && ok && id.Name == "_"
		}
		return s.Tok != token.DEFINE && !blank
	case *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt:
		return true
	case *ast.BranchStmt:
		return s.Tok == token.BREAK || s.Tok == token.CONTINUE
	case *ast.ReturnStmt:
		return true
	}
	return false
}

func (f *finder) locks(e ast.Expr) bool {
	c, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	if id, ok := c.Fun.(*ast.Ident); ok && id.Name == "panic" {
		return true
	}
	s, ok := c.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"Lock", "Unlock", "RLock", "RUnlock"}, s.Sel.Name)
}

// list makes mutants that leave statements out, and that change the order of two.
func (f *finder) list(list []ast.Stmt) {
	for i, s := range list {
		if !f.droppable(s) {
			continue
		}
		switch s.(type) {
		case *ast.ReturnStmt:
			if s != f.last {
				f.add("goon", s, f.around(s, "if !mutant(%N) { ", " }"))
			}
			continue
		case *ast.BranchStmt:
			f.add("goon", s, f.around(s, "if !mutant(%N) { ", " }"))
			continue
		}
		f.add("drop", s, f.around(s, "if !mutant(%N) { ", " }"))
		if i+1 < len(list) && f.simple(s) && f.simple(list[i+1]) {
			text := string(f.file.text[f.off(s.Pos()):f.off(s.End())])
			if !strings.Contains(text, "\n") {
				f.add("swap", s, f.around(s, "if !mutant(%N) { ", " }"), f.around(list[i+1], "", "; if mutant(%N) { "+text+" }"))
			}
		}
	}
}

// simple statements can change places.
func (f *finder) simple(s ast.Stmt) bool {
	switch s.(type) {
	case *ast.ExprStmt, *ast.AssignStmt, *ast.IncDecStmt, *ast.SendStmt:
		return f.droppable(s)
	}
	return false
}

// values makes mutants of what is returned.
func (f *finder) values(r *ast.ReturnStmt) {
	for _, e := range r.Results {
		if id, ok := e.(*ast.Ident); ok && id.Name == "nil" {
			continue
		}
		t := f.pkg.info.TypeOf(e)
		if t == nil {
			continue
		}
		if _, tuple := t.(*types.Tuple); tuple {
			continue
		}
		if types.Implements(t, errorType) {
			f.add("noerror", e, f.around(e, "mutantError(%N, ", ")"))
		} else {
			f.zero(e)
		}
	}
}

var errorType = types.Universe.Lookup("error").Type().Underlying().(*types.Interface)

// zero makes a mutant in which the expression is the zero value.
func (f *finder) zero(e ast.Expr) {
	switch x := e.(type) {
	case *ast.FuncLit, *ast.UnaryExpr:
		return
	case *ast.CompositeLit:
		if x.Type == nil {
			return
		}
	case *ast.BasicLit:
		if x.Value == "0" || x.Value == "1" || x.Value == `""` {
			return
		}
	case *ast.Ident:
		if x.Name == "nil" || x.Name == "true" || x.Name == "false" {
			return
		}
	}
	tv, ok := f.pkg.info.Types[e]
	if !ok || tv.Type == nil || !tv.IsValue() || f.isBool(e) {
		return
	}
	if t, ok := f.typeName(tv.Type); ok {
		f.add("zero", e, f.around(e, "mutantZero["+t+"](%N, ", ")"))
	}
}

// isBool: a comparison has mutants of its own.
func (f *finder) isBool(e ast.Expr) bool {
	b, ok := ast.Unparen(e).(*ast.BinaryExpr)
	return ok && (b.Op == token.LAND || b.Op == token.LOR || b.Op.Precedence() == token.EQL.Precedence())
}

// typeName writes a type as the file can; false if it cannot.
func (f *finder) typeName(t types.Type) (string, bool) {
	if t == nil {
		return "", false
	}
	if b, ok := t.(*types.Basic); ok && b.Info()&types.IsUntyped != 0 || types.IsInterface(t) && strings.Contains(t.String(), "{") && t.String() != "interface{}" {
		return "", false
	}
	known := true
	name := types.TypeString(t, func(p *types.Package) string {
		if p == f.pkg.types {
			return ""
		}
		name, ok := f.file.imports[p.Path()]
		known = known && ok
		return name
	})
	return name, known && !strings.ContainsAny(name, "{\n")
}

func (f *finder) expr(e ast.Expr) {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LAND, token.LOR, token.EQL, token.NEQ:
			f.condition(e, false)
		case token.LSS, token.LEQ, token.GTR, token.GEQ:
			f.condition(e, false)
			if f.constant(e) {
				return
			}
			name := map[token.Token]string{token.LSS: "mutantLess", token.LEQ: "mutantLessEqual", token.GTR: "mutantMore", token.GEQ: "mutantMoreEqual"}[e.Op]
			f.add("boundary", e, f.call(e, name))
		case token.ADD, token.SUB:
			t, basic := f.pkg.info.TypeOf(e).Underlying().(*types.Basic)
			if !basic || t.Info()&types.IsNumeric == 0 || f.constant(e) {
				return
			}
			name := map[token.Token]string{token.ADD: "mutantAdd", token.SUB: "mutantSub"}[e.Op]
			f.add("sign", e, f.call(e, name))
		}
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			f.condition(e, false)
		}
	case *ast.BasicLit:
		t, ok := f.typeName(f.pkg.info.TypeOf(e))
		if ok && (e.Value == "0" || e.Value == "1") {
			f.add("one", e, f.around(e, "mutantOne["+t+"](%N, ", ")"))
		}
	case *ast.Ident:
		if c, ok := f.pkg.info.Uses[e].(*types.Const); ok && c.Pkg() == nil && (e.Name == "true" || e.Name == "false") {
			f.add("flip", e, f.around(e, "(", " != mutant(%N))"))
		}
	case *ast.CallExpr:
		if id, ok := e.Fun.(*ast.Ident); ok && len(e.Args) > 1 && (id.Name == "min" || id.Name == "max") {
			if _, builtin := f.pkg.info.Uses[id].(*types.Builtin); builtin {
				name := map[string]string{"min": "mutantMin(%N, ", "max": "mutantMax(%N, "}[id.Name]
				f.add("minmax", e, edit{at: f.off(e.Pos()), end: f.off(e.End()), token: f.off(id.Pos()), tokenEnd: f.off(e.Lparen) + 1, with: name})
			}
		}
	}
}

// ends lets a function that returns something end with a panic: a mutant that leaves a return
// out would not compile else.
func (f *finder) ends(body *ast.BlockStmt) {
	f.pkg.always = append(f.pkg.always, place{f.file, edit{at: f.off(body.Rbrace), end: -1, before: `; panic("a mutant returns nothing")`}})
}
