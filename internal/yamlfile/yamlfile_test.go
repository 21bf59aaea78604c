// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weir/internal/fault"
	"weir/internal/units"
)

type base struct {
	Name string `yaml:"name"`
}

type inner struct {
	Fields `yaml:"-"`
	base
	Rate  units.BitRate  `yaml:"rate"`
	Delay units.Duration `yaml:"delay"`
	Keep  *bool          `yaml:"keep"`
}

type short struct {
	Value string `yaml:"value"`
	Level int    `yaml:"level"`
}

func (s *short) UnmarshalText(text []byte) error {
	if string(text) == "bad" {
		return errors.New("a bad short form")
	}
	s.Value = string(text)
	return nil
}

type needy struct {
	Name  string `yaml:"name,required" doc:"a name"`
	Shape string `yaml:"shape" enum:"round,square"`
}

type sample struct {
	Title  string     `yaml:"title"`
	Count  int        `yaml:"count"`
	Octet  uint8      `yaml:"octet"`
	Factor float64    `yaml:"factor"`
	Links  []inner    `yaml:"links"`
	Short  short      `yaml:"short"`
	Long   Map[short] `yaml:"long"`
	Words  []Text     `yaml:"words"`
	Raw    *Node      `yaml:"raw"`
	Must   []needy    `yaml:"must"`
	Hidden string
}

func TestDecode(t *testing.T) {
	text := `# a comment
title: "a: title"
count: 3
factor: 1e3
octet: 255
links:
  - &first {name: a, rate: 10Mbit, keep: false}
  - name: b
    delay: 5 ms
  - <<: *first
    name: c
short: word
long:
  z: {value: v, level: 2}
  a: plain
words: [x, 1, true]
raw: {any: [1, 2]}
`
	var got sample
	if err := Decode("f.yaml", []byte(text), &got); err != nil {
		t.Fatal(err)
	}
	no := false
	want := sample{
		Title: "a: title", Count: 3, Factor: 1000, Octet: 255, Short: short{Value: "word"},
		Links: []inner{
			{base: base{"a"}, Rate: 10e6, Keep: &no},
			{base: base{"b"}, Delay: units.Duration(5 * time.Millisecond)},
			{base: base{"c"}, Rate: 10e6, Keep: &no},
		},
		Long: Map[short]{
			{Text{"z", Place{"f.yaml", 14, 3}}, short{"v", 2}},
			{Text{"a", Place{"f.yaml", 15, 3}}, short{Value: "plain"}},
		},
		Words: []Text{{"x", Place{"f.yaml", 16, 9}}, {"1", Place{"f.yaml", 16, 12}}, {"true", Place{"f.yaml", 16, 15}}},
	}
	if got.Raw == nil || got.Raw.Kind != Mapping || len(got.Raw.Entries[0].Value.Items) != 2 {
		t.Errorf("raw subtree: %+v", got.Raw)
	}
	got.Raw = nil
	if d := cmp.Diff(want, got, cmpopts.IgnoreTypes(Fields{}), cmp.AllowUnexported(inner{})); d != "" {
		t.Errorf("decoded (-want +got):\n%s", d)
	}
	second := got.Links[1].Fields
	if at := second.At("delay"); at != (Place{"f.yaml", 9, 12}) {
		t.Errorf("place of links[1].delay: %v", at)
	}
	if at := second.At("rate"); at != (Place{"f.yaml", 8, 5}) || second.Has("rate") {
		t.Errorf("place of a key left out: %v, has %t; want the mapping's place, false", at, second.Has("rate"))
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "f.yaml: the file is empty"},
		{"spaces", " \n\n", "f.yaml: the file is empty"},
		{"comments only", "# nothing\n", "f.yaml: the file has only comments"},
		{"not UTF-8", "title: \xff", "f.yaml: the file is not UTF-8 text"},
		{"long line", "title: " + strings.Repeat("x", 5000), "f.yaml:1:4097: the line has 5007 octets; 4096 are allowed"},
		{"unknown key", "titel: x", `f.yaml:1:1: unknown key "titel" (did you mean "title"?)`},
		{"unknown key below", "links:\n  - name: a\n    rat: 1Mbit", `f.yaml:3:5: unknown key "rat" in links[0] (did you mean "rate"?)`},
		{"far key", "links: [{bandwidth: 1}]", `f.yaml:1:10: unknown key "bandwidth" in links[0]; valid here: name, rate, delay, keep`},
		{"field without tag", "Hidden: x", `f.yaml:1:1: unknown key "Hidden"; valid here: title, count, octet, factor, links, short, long, words, raw, must`},
		{"twice", "title: a\ncount: 1\ntitle: b", `f.yaml:3:1: key "title" is given twice; the first is on line 1`},
		{"no value", "count:\ntitle: x", "f.yaml:1:7: count: no value is given; leave the key out for the default"},
		{"not a number", "count: many", `f.yaml:1:8: count: "many" is not a whole number`},
		{"a number in quotes", `count: "3"`, `f.yaml:1:8: count: "3" is a text: expected a number`},
		{"a bool in quotes", "links: [{keep: 'true'}]", `f.yaml:1:16: links[0].keep: "true" is a text: expected true or false`},
		{"not a float", "factor: .nan", `f.yaml:1:9: factor: ".nan" is not a number`},
		{"a control character", "title: x\ncount: \x07", "f.yaml:2:8: not valid YAML: control characters are not allowed"},
		{"an escape for terminals", `title: "a\e[2J"`, `f.yaml:1:8: "a\x1b[2J" has the control character U+001B`},
		{"one in a key", `"ti\btle": x`, `f.yaml:1:1: "ti\btle" has the control character U+0008`},
		{"a key of two lines", `"ti\ntle": x`, `f.yaml:1:1: "ti\ntle" has the control character U+000A`},
		{"text that runs backwards", "title: a\u202eb", "f.yaml:1:8: \"a\\u202eb\" has the control character U+202E"},
		{"octal", "count: 010", `f.yaml:1:8: count: "010" begins with 0, which YAML 1.1 reads as octal: write it without`},
		{"octal, unsigned", "octet: 010", `f.yaml:1:8: octet: "010" begins with 0, which YAML 1.1 reads as octal: write it without`},
		{"too large", "octet: 256", `f.yaml:1:8: octet: "256" is not a whole number from 0 to 255`},
		{"not a bool", "links: [{keep: yes}]", `f.yaml:1:16: links[0].keep: "yes" is neither true nor false`},
		{"unit", "links: [{rate: 10}]", `f.yaml:1:16: links[0].rate: rate "10" has an unknown unit: write bit, kbit, Mbit, Gbit or Tbit, as in "200Mbit"`},
		{"list for a word", "title: [a]", "f.yaml:1:8: title: expected a single value, found a list"},
		{"word for a list", "links: a", "f.yaml:1:8: links: expected a list, found a single value"},
		{"mapping for a list", "links: {name: a}", "f.yaml:1:9: links: expected a list, found a mapping (key: value)"},
		{"word for a mapping", "links: [a]", "f.yaml:1:9: links[0]: expected a mapping (key: value), found a single value"},
		{"list for a short form", "short: [a]", "f.yaml:1:8: short: expected a single value or a mapping (key: value), found a list"},
		{"list for a map", "long: [a]", "f.yaml:1:7: long: expected a mapping (key: value), found a list"},
		{"bad short form", "short: bad", "f.yaml:1:8: short: a bad short form"},
		{"top level", "- a", "f.yaml:1:1: expected a mapping (key: value), found a list"},
		{"two documents", "title: a\n---\ntitle: b", "f.yaml:2:1: a second YAML document begins here"},
		{"tag", "title: !!str a", "f.yaml:1:8: a YAML tag is not supported here"},
		{"unknown alias", "title: *a", "f.yaml:1:8: no anchor &a above this line"},
		{"merge of a word", "links:\n  - <<: x", "f.yaml:2:9: a merge key (<<) needs a mapping, and this is a single value"},
		{"several", "titel: x\ncount: z", "f.yaml:1:1: unknown key \"titel\" (did you mean \"title\"?)\nf.yaml:2:8: count: \"z\" is not a whole number"},
		{"wrong below", "title: a\nlinks:\n  - name: b\n   rate: 1Mbit\n", "f.yaml:3: not valid YAML: did not find expected '-' indicator"},
		{"missing key", "must: [{shape: round}]", `f.yaml:1:9: key "name" is missing in must[0]`},
		{"not in the list", "must: [{name: a, shape: rund}]", `f.yaml:1:25: must[0].shape: "rund" is not one of round, square (did you mean "round"?)`},
		{"deeper than the library goes", strings.Repeat("[\n", 30_000), "f.yaml:10001: nested more than 32 levels deep"},
		{"merged twice", "links:\n  - &a {name: a}\n  - <<: *a\n    <<: *a", `f.yaml:4:5: key "<<" is given twice; the first is on line 3`},
		{"within itself", "raw: &a {x: *a}", "f.yaml:1:13: no anchor &a above this line"},
		{"unclosed bracket", "links: [a", "f.yaml:1: not valid YAML: did not find expected ',' or ']'"},
		{"wrong indentation", "title: a\n  count: 1", "f.yaml:2: not valid YAML: mapping values are not allowed in this context"},
		{"deep brackets", "raw: " + strings.Repeat("[", 2000) + strings.Repeat("]", 2000), "f.yaml:1:38: nested more than 32 levels deep"},
		{"deep markers", strings.Repeat("- ", 1000), "f.yaml:1:67: nested more than 32 levels deep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got sample
			err := Decode("f.yaml", []byte(c.text), &got)
			if err == nil {
				t.Fatalf("decoded %+v, want the error %q", got, c.want)
			}
			if err.Error() != c.want {
				t.Errorf("error:\n got %q\nwant %q", err, c.want)
			}
			if fault.Of(err) != fault.Usage || fault.Advice(err) == "" {
				t.Errorf("status %d, advice %q; want status %d and some advice", fault.Of(err), fault.Advice(err), fault.Usage)
			}
		})
	}
}

// Each mistake's own advice appears once, with its lines.
func TestEveryMistakeHasItsWayOut(t *testing.T) {
	for text, want := range map[string]string{
		"titel: x": `write "title" instead of "titel"`,
		"titel: x\ncuont: 1\nlinks:\n  - nmae: a\n  - nmae: b": "line 1: write \"title\" instead of \"titel\"\nline 2: write \"count\" instead of \"cuont\"\n" +
			"line 4, 5: write \"name\" instead of \"nmae\"",
		"titel: x\ncount: many": `line 1: write "title" instead of "titel"`,
	} {
		t.Run(text[:min(len(text), 30)], func(t *testing.T) {
			if got := fault.Advice(Decode("f.yaml", []byte(text), &sample{})); got != want {
				t.Errorf("%q: advice %q, want %q", text, got, want)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	bomb := "raw:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 12; i++ {
		prior := fmt.Sprintf("*a%d", i-1)
		bomb += fmt.Sprintf("  a%d: &a%d [%s]\n", i, i, strings.Repeat(prior+", ", 9)+prior)
	}
	err := Decode("f.yaml", []byte(bomb), new(sample))
	if err == nil || !strings.HasSuffix(err.Error(), ": the file has more than 100000 values once its aliases are expanded") || strings.Contains(err.Error(), "\n") {
		t.Errorf("alias bomb: %v", err)
	}
	err = Decode("f.yaml", make([]byte, MaxFile+1), new(sample))
	if err == nil || err.Error() != "f.yaml: the file has 262145 octets; 262144 are allowed" {
		t.Errorf("large file: %v", err)
	}
	var many strings.Builder
	for i := range 30 {
		fmt.Fprintf(&many, "key%d: 1\n", i)
	}
	err = Decode("f.yaml", []byte(many.String()), new(sample))
	if err == nil || !strings.HasSuffix(err.Error(), "\nand 10 more mistakes") || len(Mistakes(err)) != 30 {
		t.Errorf("many mistakes: %v", err)
	}
}

func TestVariables(t *testing.T) {
	tree, err := Parse("f.yaml", []byte("title: a ${x} and $${x}\ncount: ${n}\nlinks: [{name: \"${x}${n}\"}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got sample
	var p Problems
	vars := Variables{Values: map[string]string{"x": "${n}", "n": "7"}, Used: map[string]bool{}}
	tree.Decode(&got, &vars, &p)
	if p.Len() != 0 || got.Title != "a ${n} and ${x}" || got.Count != 7 || got.Links[0].Name != "${n}7" || len(vars.Used) != 2 {
		t.Errorf("decoded %+v, used %v, problems %v", got, vars.Used, p.Err(""))
	}
	for _, c := range []struct{ text, want string }{
		{"title: ${los}", `f.yaml:1:8: unknown parameter ${los} (did you mean "loss"?)`},
		{"title: ${zzzzzz}", `f.yaml:1:8: unknown parameter ${zzzzzz}; known: loss, cc`},
		{"title: ${loss", `f.yaml:1:8: ${loss has no closing brace`},
	} {
		t.Run(c.text, func(t *testing.T) {
			tree, err := Parse("f.yaml", []byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			var p Problems
			tree.Decode(new(sample), &Variables{Names: []string{"loss", "cc"}}, &p)
			if err := p.Err("x"); err == nil || err.Error() != c.want {
				t.Errorf("%s: %v, want %s", c.text, err, c.want)
			}
		})
	}
}

// FuzzDecode: no text makes the reader panic or hang, and a rejected text gives status Usage.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"title: a\nlinks: [{name: b}]", "a: &x {b: *x}", "? [a]\n: b", "- - - x", "<<: {a: b}", "a: |\n  b\n", "%YAML 1.2\n---\na: b\n", "\"", "a: !!map {}", "{", "[}", "a:\n\t- b", "&a : b", "? : ?", "a: &x {k: 1}\nb:\n  <<: *x\n  <<: *x", "- - - -\n-\n-", "a: &x {b: *x}\nc: *x", "a: [\n[", "b:\n k: *none"} {
		f.Add([]byte(seed))
	}
	if text, err := os.ReadFile("../../go.mod"); err == nil {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		err := Decode("f.yaml", text, new(sample))
		if err != nil && fault.Of(err) != fault.Usage {
			t.Errorf("status %d of %v", fault.Of(err), err)
		}
	})
}
