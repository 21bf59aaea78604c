// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/core/match"
	"weir/core/policy"
	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

// parse reads a selector as in a policy file.
func parse(t *testing.T, kind, text string) policy.Selector {
	t.Helper()
	k, known := Of(policy.Selector{Kind: kind})
	if !known {
		t.Fatalf("there is no kind %s", kind)
	}
	canonical, words, err := k.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return policy.Selector{Kind: kind, Text: canonical, Words: words}
}

func TestWhatIsMeantIsWrittenInOneForm(t *testing.T) {
	for _, test := range []struct{ kind, text, want, words string }{
		{"cgroup", "a/./b//", "/a/b", "cgroup /a/b"},
		{"unit", "x.service", "x.service", "unit x.service"},
		{"user", "7", "7", "user 7"},
		{"interface", "eth0", "eth0", "interface eth0"},
		{"prefix", "10.1.2.3/8", "10.0.0.0/8", "remote prefix 10.0.0.0/8"},
		{"prefix", "::ffff:10.5.0.0/112", "10.5.0.0/16", "remote prefix 10.5.0.0/16"},
		{"netns", "blue", "blue", "network namespace blue"},
		{"netns", "/proc/1/ns/net", "/proc/1/ns/net", "network namespace /proc/1/ns/net"},
		{"mark", "16", "0x10", "socket mark 0x10"},
		{"mark", "0x10", "0x10", "socket mark 0x10"},
		{"host", "true", "", "the whole host"},
	} {
		want := policy.Selector{Kind: test.kind, Text: test.want, Words: test.words}
		if got := parse(t, test.kind, test.text); got != want {
			t.Errorf("%s %s: %+v, want %+v", test.kind, test.text, got, want)
		}
	}
}

func TestWhatStandsForNothingIsRefused(t *testing.T) {
	for kind, texts := range map[string][]string{
		"cgroup": {"/", "..", "/a/..", "/a/../b"}, "unit": {"x", "a/b.service", "a b.service"}, "user": {"-1", "root", "4294967295"},
		"interface": {"", strings.Repeat("x", 128), "a/b", "a b", "eth0:1", "..", "a\tb"}, "prefix": {"10.0.0.0", "x/8", "10.0.0.0/33"},
		"netns": {"", "a/b", "..", "/run//netns/x"}, "mark": {"0", "010", "-1", "0x1ffffffff", "blue"},
	} {
		k, _ := Of(policy.Selector{Kind: kind})
		for _, text := range texts {
			if canonical, _, err := k.Parse(text); err == nil {
				t.Errorf("%s %q is taken for %q", kind, text, canonical)
			}
		}
	}
}

// Every kind in the syntax binds to an object or reports the missing one, and returns the
// requirements for a process to match.
func TestEveryKindIsBound(t *testing.T) {
	group, ns := testutil.Cgroup(t), testutil.Namespace(t, "bound")
	if err := os.MkdirAll(filepath.Join(group.Path, "x.slice", "x.service"), 0o755); err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(nsName(t, ns))
	texts := map[string][2]string{"cgroup": {"/x.slice", "/y"}, "unit": {"x.service", "y.service"}, "user": {"7", ""}, "interface": {"lo", "nodevice"},
		"prefix": {"10.0.0.0/8", ""}, "netns": {name, "nowhere"}, "mark": {"0x10", ""}, "host": {"true", ""}}
	keys := map[string]match.Kind{"cgroup": match.Cgroup, "unit": match.Cgroup, "user": match.User, "interface": match.Interface, "prefix": match.Prefix,
		"netns": match.Netns, "mark": match.Mark, "host": match.Cgroup}
	for _, k := range Kinds() {
		for i, text := range texts[k.Key] {
			if text == "" {
				continue
			}
			h, s := &Host{CgroupRoot: group.Path}, parse(t, k.Key, text)
			bound, err := h.Bind(s)
			_, missing, inside := h.Inside(s)
			if err != nil || inside != nil {
				t.Errorf("%s: %v, %v", s, err, inside)
			}
			if there := i == 0; (bound.Missing == "") != there || (missing == "") != there || there && bound.Kind != keys[k.Key] {
				t.Errorf("%s: %+v, inside it is missing %q", s, bound, missing)
			}
		}
	}
	if bound, err := (&Host{}).Bind(policy.Selector{Kind: policy.Group}); err != nil || bound != (Binding{}) {
		t.Errorf("a group: %+v, %v", bound, err)
	}
	if _, err := (&Host{}).Bind(policy.Selector{Kind: "colour"}); err == nil || !strings.Contains(err.Error(), `"colour"`) {
		t.Errorf("an unknown kind: %v", err)
	}
}

func nsName(t *testing.T, ns *netns.Namespace) string {
	t.Helper()
	entries, err := os.ReadDir(netns.Dir)
	if err != nil {
		t.Fatal(err)
	}
	want, err := ns.Inode()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		other, err := netns.Open(e.Name())
		if err != nil {
			continue
		}
		inode, err := other.Inode()
		_ = other.Close()
		if err == nil && inode == want {
			return e.Name()
		}
	}
	t.Fatal("the namespace has no name")
	return ""
}

func TestWatchedAreTheFoldersWhereThingsComeAndGo(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"system.slice/other.service/inner", "user.slice/user-7.slice/user@7.service/app.slice", "machine"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ kind, text, want string }{
		{"host", "true", ""},
		{"cgroup", "/a", "."},
		{"cgroup", "/a/b/c", ". a a/b"},
		{"unit", "x.service", ". system.slice user.slice user.slice/user-7.slice"},
	} {
		var got []string
		for _, path := range (&Host{CgroupRoot: root}).Watch([]policy.Selector{parse(t, test.kind, test.text)}) {
			relative, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, relative)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s %s: watched are %q, want %q", test.kind, test.text, got, test.want)
		}
	}
}

// A binding to a file would limit nothing and be reported as enforced.
func TestAFileIsNeitherACgroupNorANamespace(t *testing.T) {
	h := &Host{CgroupRoot: testutil.Cgroup(t).Path}
	for _, test := range []struct{ kind, text, want string }{
		{"cgroup", "/cgroup.procs", "cgroup.procs is a file, not a cgroup"},
		{"cgroup", "/cgroup.procs/x", "cgroup.procs/x is a file, not a cgroup"},
		{"netns", "/etc/passwd", "/etc/passwd is not a network namespace"},
		{"netns", "/proc/self/ns/mnt", "/proc/self/ns/mnt is not a network namespace"},
	} {
		_, err := h.Bind(parse(t, test.kind, test.text))
		if fault.Of(err) != fault.Usage || fault.Advice(err) == "" || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s: %v, status %d, try %q, want a usage error with %q", test.kind, test.text, err, fault.Of(err), fault.Advice(err), test.want)
		}
	}
}

func TestNamesThatWereProbablyMeant(t *testing.T) {
	group := testutil.Cgroup(t)
	if err := os.MkdirAll(filepath.Join(group.Path, "backup.service", "child"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ kind, text, want string }{
		{"cgroup", "/backup.servic/child", "/backup.service/child"},
		{"unit", "bakcup.service", "backup.service"},
		{"interface", "llo", "lo"},
		{"user", "7", ""},
		{"cgroup", group.Path + "/backup.service", "/backup.service"},
	} {
		if got := (&Host{CgroupRoot: group.Path}).Near(parse(t, test.kind, test.text)); got != test.want {
			t.Errorf("%s %s: %q, want %q", test.kind, test.text, got, test.want)
		}
	}
}
