package sim

import "github.com/yuin/gopher-lua/ast"

// concatenation is the global that stands for the operator .. in compiled scripts. gopher-lua spells numbers otherwise
// than Lua does: 1.7e15 .. ” is "1.7e+15" in Redis. No script can name it.
const concatenation = "concat "

// rewrite replaces every .. in a chunk by a call of concatenation, with all operands of a chain at once.
func rewrite(chunk []ast.Stmt) {
	for _, stmt := range chunk {
		rewriteStmt(stmt)
	}
}

func rewriteStmt(stmt ast.Stmt) {
	switch stmt := stmt.(type) {
	case *ast.AssignStmt:
		rewriteAll(stmt.Lhs)
		rewriteAll(stmt.Rhs)
	case *ast.LocalAssignStmt:
		rewriteAll(stmt.Exprs)
	case *ast.FuncCallStmt:
		stmt.Expr = rewritten(stmt.Expr)
	case *ast.DoBlockStmt:
		rewrite(stmt.Stmts)
	case *ast.WhileStmt:
		stmt.Condition = rewritten(stmt.Condition)
		rewrite(stmt.Stmts)
	case *ast.RepeatStmt:
		stmt.Condition = rewritten(stmt.Condition)
		rewrite(stmt.Stmts)
	case *ast.IfStmt:
		stmt.Condition = rewritten(stmt.Condition)
		rewrite(stmt.Then)
		rewrite(stmt.Else)
	case *ast.NumberForStmt:
		stmt.Init, stmt.Limit, stmt.Step = rewritten(stmt.Init), rewritten(stmt.Limit), rewritten(stmt.Step)
		rewrite(stmt.Stmts)
	case *ast.GenericForStmt:
		rewriteAll(stmt.Exprs)
		rewrite(stmt.Stmts)
	case *ast.FuncDefStmt:
		rewrite(stmt.Func.Stmts)
	case *ast.ReturnStmt:
		rewriteAll(stmt.Exprs)
	}
}

func rewriteAll(exprs []ast.Expr) {
	for i := range exprs {
		exprs[i] = rewritten(exprs[i])
	}
}

func rewritten(expr ast.Expr) ast.Expr {
	switch expr := expr.(type) {
	case *ast.StringConcatOpExpr:
		return joined(expr)
	case *ast.AttrGetExpr:
		expr.Object, expr.Key = rewritten(expr.Object), rewritten(expr.Key)
	case *ast.TableExpr:
		for _, f := range expr.Fields {
			f.Key, f.Value = rewritten(f.Key), rewritten(f.Value)
		}
	case *ast.FuncCallExpr:
		expr.Func, expr.Receiver = rewritten(expr.Func), rewritten(expr.Receiver)
		rewriteAll(expr.Args)
	case *ast.LogicalOpExpr:
		expr.Lhs, expr.Rhs = rewritten(expr.Lhs), rewritten(expr.Rhs)
	case *ast.RelationalOpExpr:
		expr.Lhs, expr.Rhs = rewritten(expr.Lhs), rewritten(expr.Rhs)
	case *ast.ArithmeticOpExpr:
		expr.Lhs, expr.Rhs = rewritten(expr.Lhs), rewritten(expr.Rhs)
	case *ast.UnaryMinusOpExpr:
		expr.Expr = rewritten(expr.Expr)
	case *ast.UnaryNotOpExpr:
		expr.Expr = rewritten(expr.Expr)
	case *ast.UnaryLenOpExpr:
		expr.Expr = rewritten(expr.Expr)
	case *ast.FunctionExpr:
		rewrite(expr.Stmts)
	}
	return expr
}

// joined is the call that stands for a chain of .. operators.
func joined(expr *ast.StringConcatOpExpr) ast.Expr {
	name := &ast.IdentExpr{Value: concatenation}
	// The result is cut to one value, as the operator's is.
	call := &ast.FuncCallExpr{Func: name, Args: operands(expr, nil), AdjustRet: true}
	for _, node := range []ast.PositionHolder{name, call} {
		node.SetLine(expr.Line())
		node.SetLastLine(expr.LastLine())
	}
	return call
}

func operands(expr ast.Expr, list []ast.Expr) []ast.Expr {
	if chain, ok := expr.(*ast.StringConcatOpExpr); ok {
		return operands(chain.Rhs, operands(chain.Lhs, list))
	}
	switch one := rewritten(expr).(type) {
	case *ast.FuncCallExpr:
		one.AdjustRet = true
		return append(list, one)
	case *ast.Comma3Expr:
		one.AdjustRet = true
		return append(list, one)
	default:
		return append(list, one)
	}
}
