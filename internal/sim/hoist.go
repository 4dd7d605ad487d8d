package sim

import (
	"slices"
	"strconv"

	"github.com/yuin/gopher-lua/ast"
)

// hoisted turns a chunk into one that makes the chunk's functions once, and returns a function that runs the rest: a
// script of the locks defines some thirty functions, and calls six of them. Each run sets the chunk's variables anew
// where it declares them. It returns nil for a chunk without functions, and for one that would then do something else.
func hoisted(chunk []ast.Stmt) []ast.Stmt {
	assigned, ok := renamed(chunk)
	if !ok {
		return nil
	}
	head := &ast.LocalAssignStmt{}
	out := []ast.Stmt{at(head, chunk[0])}
	var rest []ast.Stmt
	for _, stmt := range chunk {
		local, ok := stmt.(*ast.LocalAssignStmt)
		if !ok {
			rest = append(rest, stmt)
			continue
		}
		head.Names = append(head.Names, local.Names...)
		if isFunction(local) && !assigned[local.Names[0]] {
			out = append(out, assignment(local))
		} else {
			rest = append(rest, assignment(local))
		}
	}
	if len(out) == 1 {
		return nil // no functions
	}
	body := at(&ast.FunctionExpr{ParList: &ast.ParList{}, Stmts: rest}, chunk[0])
	body.SetLastLine(chunk[len(chunk)-1].LastLine())
	return append(out, at(&ast.ReturnStmt{Exprs: []ast.Expr{body}}, chunk[len(chunk)-1]))
}

// renamed gives each variable that a chunk itself declares a name of its own, which no script can write: declared
// together they must not hide globals, nor one another. It returns those that are assigned to besides. ok is false where
// something stands in the chunk that is not understood.
func renamed(chunk []ast.Stmt) (assigned map[string]bool, ok bool) {
	names, assigned := map[string]string{}, map[string]bool{}
	for i, stmt := range chunk {
		local, declares := stmt.(*ast.LocalAssignStmt)
		if declares && isFunction(local) {
			declare(names, local, i) // it may call itself
		}
		seen := namesIn(stmt)
		if seen.strange {
			return nil, false
		}
		for _, name := range seen.free {
			if own, known := names[name.Value]; known {
				name.Value = own
			}
		}
		for _, name := range seen.assigned {
			assigned[name.Value] = true
		}
		if declares && !isFunction(local) {
			declare(names, local, i)
		}
	}
	return assigned, true
}

// declare renames what the i-th statement of a chunk declares.
func declare(names map[string]string, local *ast.LocalAssignStmt, i int) {
	for n, name := range local.Names {
		names[name] = name + " " + strconv.Itoa(i)
		local.Names[n] = names[name]
	}
}

// isFunction reports whether a declaration is that of one function, which may call itself.
func isFunction(local *ast.LocalAssignStmt) bool {
	if len(local.Names) != 1 || len(local.Exprs) != 1 {
		return false
	}
	_, ok := local.Exprs[0].(*ast.FunctionExpr)
	return ok
}

// assignment sets what was declared.
func assignment(local *ast.LocalAssignStmt) ast.Stmt {
	out := at(&ast.AssignStmt{Rhs: local.Exprs}, local)
	for _, name := range local.Names {
		out.Lhs = append(out.Lhs, at(&ast.IdentExpr{Value: name}, local))
	}
	if len(out.Rhs) == 0 {
		out.Rhs = []ast.Expr{at(&ast.NilExpr{}, local)}
	}
	return out
}

// at gives a new node the place of another.
func at[N ast.PositionHolder](node N, place ast.PositionHolder) N {
	node.SetLine(place.Line())
	node.SetLastLine(place.LastLine())
	return node
}

// scanner finds the names in a statement of a chunk that are not declared inside of it.
type scanner struct {
	free, assigned []*ast.IdentExpr
	bound          []string // names that are declared where the scanner is
	depth          int      // of functions
	strange        bool     // something stands there that means another thing inside of a function
}

func namesIn(stmt ast.Stmt) *scanner {
	s := &scanner{}
	if local, ok := stmt.(*ast.LocalAssignStmt); ok {
		s.exprs(local.Exprs)
	} else {
		s.stmt(stmt)
	}
	return s
}

func (s *scanner) block(stmts []ast.Stmt, names ...string) {
	outer := len(s.bound)
	s.bound = append(s.bound, names...)
	for _, stmt := range stmts {
		s.stmt(stmt)
	}
	s.bound = s.bound[:outer]
}

func (s *scanner) stmt(stmt ast.Stmt) {
	switch stmt := stmt.(type) {
	case *ast.AssignStmt:
		for _, to := range stmt.Lhs {
			s.set(to)
		}
		s.exprs(stmt.Rhs)
	case *ast.LocalAssignStmt:
		if isFunction(stmt) {
			s.bound = append(s.bound, stmt.Names...)
			s.exprs(stmt.Exprs)
		} else {
			s.exprs(stmt.Exprs)
			s.bound = append(s.bound, stmt.Names...)
		}
	case *ast.FuncCallStmt:
		s.expr(stmt.Expr)
	case *ast.DoBlockStmt:
		s.block(stmt.Stmts)
	case *ast.WhileStmt:
		s.expr(stmt.Condition)
		s.block(stmt.Stmts)
	case *ast.IfStmt:
		s.expr(stmt.Condition)
		s.block(stmt.Then)
		s.block(stmt.Else)
	case *ast.NumberForStmt:
		s.exprs([]ast.Expr{stmt.Init, stmt.Limit, stmt.Step})
		s.block(stmt.Stmts, stmt.Name)
	case *ast.GenericForStmt:
		s.exprs(stmt.Exprs)
		s.block(stmt.Stmts, stmt.Names...)
	case *ast.ReturnStmt:
		s.exprs(stmt.Exprs)
	case *ast.BreakStmt:
	default: // no script of the locks has others
		s.strange = true
	}
}

// set notes what is assigned to.
func (s *scanner) set(to ast.Expr) {
	s.expr(to)
	if name, ok := to.(*ast.IdentExpr); ok && !slices.Contains(s.bound, name.Value) {
		s.assigned = append(s.assigned, name)
	}
}

func (s *scanner) exprs(exprs []ast.Expr) {
	for _, expr := range exprs {
		s.expr(expr)
	}
}

func (s *scanner) expr(expr ast.Expr) {
	switch expr := expr.(type) {
	case nil, ast.ConstExpr:
	case *ast.IdentExpr:
		if !slices.Contains(s.bound, expr.Value) {
			s.free = append(s.free, expr)
		}
	case *ast.Comma3Expr:
		s.strange = s.strange || s.depth == 0
	case *ast.AttrGetExpr:
		s.exprs([]ast.Expr{expr.Object, expr.Key})
	case *ast.TableExpr:
		for _, f := range expr.Fields {
			s.exprs([]ast.Expr{f.Key, f.Value})
		}
	case *ast.FuncCallExpr:
		s.exprs([]ast.Expr{expr.Func, expr.Receiver})
		s.exprs(expr.Args)
	case *ast.LogicalOpExpr:
		s.exprs([]ast.Expr{expr.Lhs, expr.Rhs})
	case *ast.RelationalOpExpr:
		s.exprs([]ast.Expr{expr.Lhs, expr.Rhs})
	case *ast.ArithmeticOpExpr:
		s.exprs([]ast.Expr{expr.Lhs, expr.Rhs})
	case *ast.UnaryMinusOpExpr:
		s.expr(expr.Expr)
	case *ast.UnaryNotOpExpr:
		s.expr(expr.Expr)
	case *ast.UnaryLenOpExpr:
		s.expr(expr.Expr)
	case *ast.FunctionExpr:
		s.depth++
		s.block(expr.Stmts, expr.ParList.Names...)
		s.depth--
	default:
		s.strange = true
	}
}
