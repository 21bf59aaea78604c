// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/openconfig/goyang/pkg/yang"
)

// Value is a value in its canonical form. An identity is MODULE:NAME. Prefixes are the bindings
// that an XPath expression or instance identifier uses.
type Value struct {
	Text     string
	Prefixes map[string]string
}

// Resolve maps a prefix in a value to a namespace; the prefix "" is the default namespace.
type Resolve func(prefix string) (space string, found bool)

// Type is the type of a leaf.
type Type struct {
	Name     string // as written, such as yang:date-and-time
	yang     *yang.YangType
	set      *Set
	module   *Module
	patterns []*regexp.Regexp
	members  []*Type // of a union
	target   *Type   // of a leafref
}

// IsBinary, IsIdentity and HasPrefixes report how a value is encoded.
func (t *Type) IsBinary() bool   { return t.real().yang.Kind == yang.Ybinary }
func (t *Type) IsIdentity() bool { return t.real().yang.Kind == yang.Yidentityref }
func (t *Type) HasPrefixes() bool {
	return t.Name == "yang:xpath1.0" || t.yang.Kind == yang.YinstanceIdentifier || t.Name == "node-instance-identifier"
}

func (t *Type) real() *Type {
	for t.target != nil {
		t = t.target
	}
	return t
}

func (s *Set) newType(y *yang.YangType, module *Module, at *yang.Entry) (*Type, error) {
	t := &Type{Name: y.Name, yang: y, set: s, module: module}
	for _, p := range y.Pattern {
		compiled, err := regexp.Compile("^(?:" + p + ")$")
		if err != nil {
			return nil, fmt.Errorf("pattern: %w", err)
		}
		t.patterns = append(t.patterns, compiled)
	}
	for _, m := range y.Type {
		member, err := s.newType(m, module, at)
		if err != nil {
			return nil, err
		}
		t.members = append(t.members, member)
	}
	if y.Kind != yang.Yleafref {
		return t, nil
	}
	found := at.Find(y.Path)
	if found == nil || found.Type == nil {
		// the path has predicates or crosses lists: the target's type is not checked
		t.yang = &yang.YangType{Kind: yang.Ystring, Name: "string"}
		return t, nil
	}
	var err error
	t.target, err = s.newType(found.Type, module, found)
	return t, err
}

// Canonical checks a value and returns its canonical form.
func (t *Type) Canonical(text string, resolve Resolve) (Value, error) {
	if t.target != nil {
		return t.target.Canonical(text, resolve)
	}
	switch t.yang.Kind {
	case yang.Yint8, yang.Yint16, yang.Yint32, yang.Yint64, yang.Yuint8, yang.Yuint16, yang.Yuint32, yang.Yuint64:
		return t.integer(text)
	case yang.Ystring:
		return t.str(text, resolve)
	case yang.Ybool:
		if text = trim(text); text != "true" && text != "false" {
			return Value{}, fmt.Errorf("%q is neither true nor false", text)
		}
		return Value{Text: text}, nil
	case yang.Yenum:
		if text = trim(text); !t.yang.Enum.IsDefined(text) {
			return Value{}, fmt.Errorf("%q is none of %s", text, strings.Join(t.yang.Enum.Names(), ", "))
		}
		return Value{Text: text}, nil
	case yang.Ybits:
		return t.bits(text)
	case yang.Yempty:
		if trim(text) != "" {
			return Value{}, errors.New("the element must be empty")
		}
		return Value{}, nil
	case yang.Ybinary:
		return t.binary(text)
	case yang.Ydecimal64:
		return t.decimal(text)
	case yang.Yidentityref:
		return t.identityref(text, resolve)
	case yang.Yunion:
		return t.union(text, resolve)
	case yang.YinstanceIdentifier:
		return withPrefixes(trim(text), resolve)
	}
	return Value{}, fmt.Errorf("values of type %s are not supported", t.Name)
}

func trim(text string) string { return strings.Trim(text, " \t\r\n") }

var number = regexp.MustCompile(`^[+-]?[0-9]+$`)

func (t *Type) integer(text string) (Value, error) {
	text = trim(text)
	n, ok := new(big.Int).SetString(strings.TrimPrefix(text, "+"), 10)
	if !ok || !number.MatchString(text) {
		return Value{}, fmt.Errorf("%q is no integer", text)
	}
	if !within(t.yang.Range, n) {
		return Value{}, fmt.Errorf("%s is outside %s", n, t.yang.Range)
	}
	return Value{Text: n.String()}, nil
}

func within(ranges yang.YangRange, n *big.Int) bool {
	for _, r := range ranges {
		if n.Cmp(bigOf(r.Min)) >= 0 && n.Cmp(bigOf(r.Max)) <= 0 {
			return true
		}
	}
	return len(ranges) == 0
}

func bigOf(n yang.Number) *big.Int {
	value := new(big.Int).SetUint64(n.Value)
	if n.Negative {
		value.Neg(value)
	}
	return value
}

func (t *Type) length(n int) error {
	if !within(t.yang.Length, big.NewInt(int64(n))) {
		return fmt.Errorf("the length %d is outside %s", n, t.yang.Length)
	}
	return nil
}

func (t *Type) str(text string, resolve Resolve) (Value, error) {
	if err := t.length(utf8.RuneCountInString(text)); err != nil {
		return Value{}, err
	}
	for i, p := range t.patterns {
		if !p.MatchString(text) {
			return Value{}, fmt.Errorf("%q does not match the pattern %s", text, t.yang.Pattern[i])
		}
	}
	if t.HasPrefixes() {
		return withPrefixes(text, resolve)
	}
	return Value{Text: text}, nil
}

var usedPrefix = regexp.MustCompile(`([A-Za-z_][\w.-]*):[A-Za-z_*]`)

func withPrefixes(text string, resolve Resolve) (Value, error) {
	v := Value{Text: text, Prefixes: map[string]string{}}
	for _, found := range usedPrefix.FindAllStringSubmatch(text, -1) {
		if space, known := resolve(found[1]); known {
			v.Prefixes[found[1]] = space
		}
	}
	return v, nil
}

func (t *Type) bits(text string) (Value, error) {
	var set []string
	for _, name := range strings.Fields(text) {
		if !t.yang.Bit.IsDefined(name) {
			return Value{}, fmt.Errorf("%q is none of %s", name, strings.Join(t.yang.Bit.Names(), ", "))
		}
		if slices.Contains(set, name) {
			return Value{}, fmt.Errorf("%q appears twice", name)
		}
		set = append(set, name)
	}
	slices.SortFunc(set, func(a, b string) int { return int(t.yang.Bit.Value(a) - t.yang.Bit.Value(b)) })
	return Value{Text: strings.Join(set, " ")}, nil
}

func (t *Type) binary(text string) (Value, error) {
	octets, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return Value{}, fmt.Errorf("the value is no base64 text: %w", err)
	}
	if err := t.length(len(octets)); err != nil {
		return Value{}, err
	}
	return Value{Text: base64.StdEncoding.EncodeToString(octets)}, nil
}

var decimal = regexp.MustCompile(`^([+-]?)([0-9]+)(?:\.([0-9]+))?$`)

func (t *Type) decimal(text string) (Value, error) {
	found := decimal.FindStringSubmatch(trim(text))
	if found == nil || len(strings.TrimRight(found[3], "0")) > t.yang.FractionDigits {
		return Value{}, fmt.Errorf("%q is no decimal with %d digits after the point", text, t.yang.FractionDigits)
	}
	fraction := strings.TrimRight(found[3], "0")
	scaled, _ := new(big.Int).SetString(found[2]+fraction+strings.Repeat("0", t.yang.FractionDigits-len(fraction)), 10)
	if !scaled.IsInt64() {
		return Value{}, fmt.Errorf("%q is too large", text)
	}
	sign := ""
	if found[1] == "-" && scaled.Sign() != 0 {
		sign = "-"
		scaled.Neg(scaled)
	}
	for i, r := range t.yang.Range {
		if scaled.Cmp(bigOf(r.Min)) >= 0 && scaled.Cmp(bigOf(r.Max)) <= 0 {
			break
		}
		if i == len(t.yang.Range)-1 {
			return Value{}, fmt.Errorf("%q is outside %s", text, t.yang.Range)
		}
	}
	if fraction == "" {
		fraction = "0"
	}
	whole := strings.TrimLeft(found[2], "0")
	if whole == "" {
		whole = "0"
	}
	return Value{Text: sign + whole + "." + fraction}, nil
}

func (t *Type) union(text string, resolve Resolve) (Value, error) {
	var first error
	for _, m := range t.members {
		value, err := m.Canonical(text, resolve)
		if err == nil {
			return value, nil
		}
		if first == nil {
			first = err
		}
	}
	return Value{}, first
}

// Uint is the value of an unsigned integer in canonical form.
func Uint(text string) uint64 {
	n, _ := strconv.ParseUint(text, 10, 64) // canonical values parse
	return n
}
