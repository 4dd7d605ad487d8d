package api

import (
	"bytes"
	"fmt"
	"go/format"
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// own stands before each name of the package itself until its text is complete: no Go text has it.
const own = "\x00"

var ownName = regexp.MustCompile(own + `\.(\w+)`)

// Write returns the exported declarations of pkg as Go text without bodies, which Read reads. If
// they name an unexported type, the text has that type with what it exports.
func Write(pkg *types.Package) ([]byte, error) {
	w := &writer{pkg: pkg, imports: make(map[string]bool)}
	for _, write := range []func(types.Object) error{w.constant, w.variable, w.function, w.typeName} {
		for _, name := range pkg.Scope().Names() {
			if o := pkg.Scope().Lookup(name); o.Exported() {
				if err := write(o); err != nil {
					return nil, fmt.Errorf("%s.%s: %w", pkg.Path(), name, err)
				}
			}
		}
	}
	written := make(map[string]bool)
	for more := true; more; {
		more = false
		for _, match := range ownName.FindAllStringSubmatch(w.text.String(), -1) {
			o := pkg.Scope().Lookup(match[1])
			if o.Exported() || written[o.Name()] {
				continue
			}
			written[o.Name()], more = true, true
			if err := w.typeName(o); err != nil {
				return nil, fmt.Errorf("%s.%s: %w", pkg.Path(), o.Name(), err)
			}
		}
	}
	var all bytes.Buffer
	fmt.Fprintf(&all, "// What %s exports. RELOCK_RECORD=1 make api writes it.\n\npackage %s\n\n", pkg.Path(), pkg.Name())
	fmt.Fprintf(&all, "import (\n%s)\n", strings.Join(slices.Sorted(maps.Keys(w.imports)), ""))
	all.WriteString(ownName.ReplaceAllString(w.text.String(), "$1"))
	return format.Source(all.Bytes())
}

// writer writes the declarations of one package, those of one sort after another.
type writer struct {
	pkg     *types.Package
	imports map[string]bool // as lines
	text    strings.Builder
	sort    string
}

// line writes a line. A type, or a sort of declaration other than that of the line before, begins a
// paragraph. Sort "" continues the declaration of the line before.
func (w *writer) line(sort, format string, args ...any) {
	if sort != "" && (sort != w.sort || sort == "type") {
		w.text.WriteString("\n")
		w.sort = sort
	}
	fmt.Fprintf(&w.text, format+"\n", args...)
}

func (w *writer) typed(t types.Type) string { return types.TypeString(t, w.qualifier) }

func (w *writer) qualifier(p *types.Package) string {
	if p == w.pkg {
		return own
	}
	w.imports[fmt.Sprintf("%q\n", p.Path())] = true
	return p.Name()
}

func (w *writer) constant(o types.Object) error {
	if c, ok := o.(*types.Const); ok {
		typed := " " + w.typed(c.Type())
		if b, ok := c.Type().(*types.Basic); ok && b.Info()&types.IsUntyped != 0 {
			typed = ""
		}
		w.line("const", "const %s%s = %s", c.Name(), typed, c.Val().ExactString())
	}
	return nil
}

func (w *writer) variable(o types.Object) error {
	if v, ok := o.(*types.Var); ok {
		w.line("var", "var %s %s", v.Name(), w.typed(v.Type()))
	}
	return nil
}

func (w *writer) function(o types.Object) error {
	if f, ok := o.(*types.Func); ok {
		w.line("func", "func %s%s", f.Name(), w.signature(f))
	}
	return nil
}

func (w *writer) signature(f *types.Func) string {
	return strings.TrimPrefix(w.typed(f.Signature()), "func")
}

func (w *writer) typeName(o types.Object) error {
	tn, ok := o.(*types.TypeName)
	if !ok {
		return nil
	}
	if tn.IsAlias() {
		w.line("type", "type %s = %s", tn.Name(), w.typed(types.Unalias(tn.Type())))
		return nil
	}
	named := tn.Type().(*types.Named)
	name := tn.Name() + w.typeParams(named, true)
	switch under := named.Underlying().(type) {
	case *types.Struct:
		if err := w.structType(name, under); err != nil {
			return err
		}
	case *types.Interface:
		w.interfaceType(name, under)
		return nil
	default:
		w.line("type", "type %s %s", name, w.typed(under))
	}
	w.methods(named)
	return nil
}

// typeParams returns the type parameters of a generic type in brackets, with what they must be if asked.
func (w *writer) typeParams(named *types.Named, bounds bool) string {
	var all []string
	for p := range named.TypeParams().TypeParams() {
		text := p.Obj().Name()
		if bounds {
			text += " " + w.typed(p.Constraint())
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return ""
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// structType writes a struct's exported fields, and whether its other fields keep values from being
// compared.
func (w *writer) structType(name string, s *types.Struct) error {
	w.line("type", "type %s struct {", name)
	comparable, others := true, false
	for i := range s.NumFields() {
		f := s.Field(i)
		under := f.Type().Underlying()
		if p, ok := under.(*types.Pointer); ok {
			under = p.Elem().Underlying()
		}
		switch inner, isStruct := under.(*types.Struct); {
		case f.Exported():
			typed := w.typed(f.Type())
			if !f.Embedded() {
				typed = f.Name() + " " + typed
			}
			if tag := s.Tag(i); tag != "" {
				typed += " `" + tag + "`"
			}
			w.line("", "\t%s", typed)
			comparable = comparable && types.Comparable(f.Type())
		case f.Embedded() && isStruct && slices.ContainsFunc(slices.Collect(inner.Fields()), (*types.Var).Exported):
			return fmt.Errorf("the embedded %s has exported fields: they cannot be written yet", f.Name())
		default:
			others = true
		}
	}
	if others {
		w.line("", "\t// and unexported fields")
	}
	if comparable && !types.Comparable(s) {
		w.line("", "\t_ [0]func() // by which values cannot be compared")
	}
	w.line("", "}")
	return nil
}

func (w *writer) interfaceType(name string, i *types.Interface) {
	w.line("type", "type %s interface {", name)
	for t := range i.EmbeddedTypes() {
		w.line("", "\t%s", w.typed(t))
	}
	for m := range i.ExplicitMethods() {
		w.line("", "\t%s%s", m.Name(), w.signature(m))
	}
	w.line("", "}")
}

// methods writes the methods of a type, and those of its unexported embedded types: a caller cannot
// tell them apart.
func (w *writer) methods(named *types.Named) {
	values := types.NewMethodSet(named)
	for sel := range types.NewMethodSet(types.NewPointer(named)).Methods() {
		f := sel.Obj().(*types.Func)
		if !f.Exported() || promoted(named, sel) {
			continue
		}
		receiver := named.Obj().Name() + w.typeParams(named, false)
		if values.Lookup(f.Pkg(), f.Name()) == nil {
			receiver = "*" + receiver
		}
		w.line("", "func (%s) %s%s", receiver, f.Name(), w.signature(f))
	}
}

// promoted reports whether a method comes with an exported embedded field, which is written itself.
func promoted(named *types.Named, sel *types.Selection) bool {
	s, ok := named.Underlying().(*types.Struct)
	return ok && len(sel.Index()) > 1 && s.Field(sel.Index()[0]).Exported()
}
