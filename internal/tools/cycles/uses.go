package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
)

// uses finds which types of one package use which, and which files.
type uses struct {
	*source
	owner map[types.Object]string // the type that a field, or a method of an interface, was declared in
	types graph
	files graph
}

func usesOf(s *source) *uses {
	u := &uses{source: s, owner: make(map[types.Object]string), types: make(graph), files: make(graph)}
	for _, name := range s.pkg.Scope().Names() {
		if decl, ok := s.pkg.Scope().Lookup(name).(*types.TypeName); ok && !decl.IsAlias() {
			u.types[name] = make(map[string]string)
			u.own(name, decl.Type().Underlying())
		}
	}
	for _, file := range s.files {
		u.files[u.fileOf(file.Pos())] = make(map[string]string)
	}
	for _, file := range s.files {
		for _, decl := range file.Decls {
			u.declaration(decl)
		}
	}
	return u
}

// own notes that the type called name declares the fields and methods in of, however deep inside.
func (u *uses) own(name string, of types.Type) {
	switch of := of.(type) {
	case *types.Struct:
		for field := range of.Fields() {
			u.owner[field] = name
			u.own(name, field.Type())
		}
	case *types.Interface:
		for method := range of.ExplicitMethods() {
			u.owner[method] = name
		}
	case *types.Pointer:
		u.own(name, of.Elem())
	case *types.Slice:
		u.own(name, of.Elem())
	case *types.Map:
		u.own(name, of.Elem())
	}
}

// declaration looks at all that one declaration mentions. A function that is no method belongs to
// its file alone.
func (u *uses) declaration(decl ast.Decl) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		user := ""
		if decl.Recv != nil {
			user = typeOf(u.info.Defs[decl.Name])
		}
		u.mentions(user, decl)
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			user := ""
			if spec, ok := spec.(*ast.TypeSpec); ok && decl.Tok == token.TYPE {
				user = spec.Name.Name
			}
			u.mentions(user, spec)
		}
	}
}

// mentions adds an edge for each thing of this package that is named within node, which belongs to
// the type user.
func (u *uses) mentions(user string, node ast.Node) {
	ast.Inspect(node, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok {
			if used := u.info.Uses[name]; used != nil && used.Pkg() == u.pkg {
				u.mention(user, name, origin(used))
			}
		}
		return true
	})
}

func (u *uses) mention(user string, name *ast.Ident, used types.Object) {
	from := u.fileOf(name.Pos())
	example := fmt.Sprintf("%s, %s:%d", name.Name, from, u.fset.Position(name.Pos()).Line)
	of := typeOf(used)
	if used.Parent() == u.pkg.Scope() || of != "" {
		u.files.add(from, u.fileOf(used.Pos()), example)
	}
	if owner := u.owner[used]; owner != "" {
		of = owner
	}
	if user != "" && u.types[of] != nil {
		u.types.add(user, of, example)
	}
}

// typeOf returns the name of the type that used is, or is a method of; "" for anything else.
func typeOf(used types.Object) string {
	switch used := used.(type) {
	case *types.TypeName:
		if used.Parent() == used.Pkg().Scope() {
			return used.Name()
		}
	case *types.Func:
		if recv := used.Signature().Recv(); recv != nil {
			of := recv.Type()
			if to, ok := of.(*types.Pointer); ok {
				of = to.Elem()
			}
			if named, ok := of.(*types.Named); ok {
				return named.Obj().Name()
			}
		}
	}
	return ""
}

// origin returns the declaration of a field or method of an instantiated type.
func origin(used types.Object) types.Object {
	switch used := used.(type) {
	case *types.Var:
		return used.Origin()
	case *types.Func:
		return used.Origin()
	}
	return used
}

func (u *uses) fileOf(pos token.Pos) string { return filepath.Base(u.fset.Position(pos).Filename) }
