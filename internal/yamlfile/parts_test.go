package yamlfile

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/internal/fault"
	"weir/internal/testutil"
)

// compareParts parses the text as a whole and in parts of size entries: the trees must be the same. Of text that is no YAML
// the two may say so at different places, one as good as the other.
func compareParts(t *testing.T, text string, size int) {
	t.Helper()
	limits := Limits{MaxFile, maxNodes}
	want, wantErr := parseIn(limits, math.MaxInt, "f.yaml", []byte(text))
	got, gotErr := parseIn(limits, size, "f.yaml", []byte(text))
	if (wantErr == nil) != (gotErr == nil) || wantErr != nil && wantErr.Error() != gotErr.Error() && !notYAML(wantErr) && !notYAML(gotErr) {
		t.Errorf("in parts of %d: %v\nas a whole: %v\n%s", size, gotErr, wantErr, text)
		return
	}
	if want == nil || same(want.Root, got.Root) {
		return
	}
	t.Errorf("in parts of %d (-whole +parts):\n%s\n%s", size, cmp.Diff(want, got, cmp.AllowUnexported(Node{})), text)
}

func notYAML(err error) bool { return strings.Contains(err.Error(), "not valid YAML") }

// same compares trees. The column of a value that is not written depends, in the library, on what follows it.
func same(a, b *Node) bool {
	if a.Kind == Null && b.Kind == Null {
		return a.Place.Line == b.Place.Line
	}
	return a.Kind == b.Kind && a.Place == b.Place && a.Text == b.Text && a.size == b.size && slices.EqualFunc(a.Items, b.Items, same) &&
		slices.EqualFunc(a.Entries, b.Entries, func(x, y Entry) bool { return x.Key == y.Key && x.Place == y.Place && same(x.Value, y.Value) })
}

var partCases = []string{
	"a: 1\nb: 2\nc: 3\nd: 4\ne: 5",
	"a:\n  k: 1\n  l: 2\n  m: 3\nb:\n  k: 1\n  l: {x: 1,\n y: 2}\n  m: 3\nc: 3",
	"# head\na: 1 # one\n# before b\nb: 2\n\n# before c\nc: 3\n  # after c\n",
	"l:\n- a: 1\n  b: 2\n  c: 3\n- x\n- a: 1\n  b: 2\n  c: 3\nm: 1\nn: 2",
	"l:\n  - - a: 1\n      b: 2\n      c: 3\n    - y\n  - z\nm: |\n    text: 1\n  \n    more: 2\nn: >\n  folded\n  text\no: 1",
	"a: &x\n  k: 1\n  l: 2\n  m: 3\nb: *x\nc:\n  n: 1\n  <<: *x\n  o: 2\n  p: 3",
	"&x a: 1\nb: 2\nc: 3", "? a\n: 1\n? b\n: 2\nc: 3\nd: 4", "\"a\": 1\n'b': 2\n3: 4\nnull: 5\ntrue: 6",
	"a: word\n  goes on\nb: \"a\n  b\"\nc: 3", "a:\nb:\nc:\nd:", "a: 1\nb: 2\n  c: 3\nd: 4", "a:\n    x: 1\n    y: 2\n    z: 3\n  w: 4\nb: 1",
	"a: 1\na: 2\nb: 3\nb: 4\na: 5", "---\na: 1\nb: 2\nc: 3\n...\n", "a: 1\nb: 2\n---\nc: 1\nd: 2\ne: 3", "{a: 1,\nb: 2,\nc: 3}", "a: 1\nb: ]\nc: }\nd: 1\ne: [",
	"a: 1\nb\nc: 3\nd: 4", "a: 1\nb: 2\nc: *none\nd: 4\ne: *more",
}

func TestWideMappingsAreTheSameInParts(t *testing.T) {
	for _, text := range partCases {
		for size := 1; size <= 3; size++ {
			compareParts(t, text, size)
		}
	}
}

func TestRandomFilesAreTheSameInParts(t *testing.T) {
	random := testutil.Rand(t)
	for range 1000 {
		compareParts(t, randomBlock(random, 0, 0), 1+random.IntN(3))
	}
}

// randomBlock writes a mapping or a list, indented.
func randomBlock(random *rand.Rand, depth, indent int) string {
	var b strings.Builder
	list := random.IntN(4) == 0
	for i := range 1 + random.IntN(7) {
		head := fmt.Sprintf("k%d:", i)
		if list {
			head = "-"
		}
		value := []string{" 1", " word", " {x: 1, y: [2]}", " |\n" + strings.Repeat(" ", indent+3) + "text: 1", "", " # note", " 'q: r'"}[random.IntN(7)]
		if depth < 3 && random.IntN(3) == 0 {
			inner := indent + 1 + random.IntN(3)
			value = "\n" + strings.TrimRight(randomBlock(random, depth+1, inner), "\n")
		}
		fmt.Fprintf(&b, "%s%s%s\n", strings.Repeat(" ", indent), head, value)
	}
	return b.String()
}

// Of text that is not well-formed the library may make one thing as a whole and another in parts; both are a tree or a mistake
// of the user's.
func FuzzParts(f *testing.F) {
	for _, text := range partCases {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tree, err := parseIn(Limits{MaxFile, maxNodes}, 2, "f.yaml", []byte(text))
		if (tree == nil) == (err == nil) || err != nil && fault.Of(err) != fault.Usage {
			t.Errorf("tree %v, error %v", tree, err)
		}
	})
}

func TestBoundsAreTheFormatsOwn(t *testing.T) {
	text := []byte("a: 1\nb: 2\nc: 3")
	for _, test := range []struct {
		limits Limits
		want   string
	}{
		{Limits{13, 10}, "f.yaml: the file has 14 octets; 13 are allowed"},
		{Limits{14, 3}, "f.yaml:3:4: the file has more than 3 values once its aliases are expanded"},
	} {
		if _, err := ParseWithin(test.limits, "f.yaml", text); err == nil || err.Error() != test.want {
			t.Errorf("%+v: got %v, want %s", test.limits, err, test.want)
		}
	}
	if _, err := ParseWithin(Limits{14, 4}, "f.yaml", text); err != nil {
		t.Error(err)
	}
}
