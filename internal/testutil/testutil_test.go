// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/kernel/netns"
)

func TestDifference(t *testing.T) {
	got := difference([]string{"a", "b", "d", "namespace weir-123456-peer"}, []string{"a", "c", "d"})
	if diff := cmp.Diff([]string{"new: c", "gone: b"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What others make and remove meanwhile comes under other names; what was left behind is there each
// time.
func TestOnlyWhatLastsIsLeftBehind(t *testing.T) {
	looks := 0
	got := lasts(100*time.Microsecond, func() []string {
		looks++
		return []string{"new: left", fmt.Sprint("new: of others ", looks)}
	})
	if diff := cmp.Diff([]string{"new: left"}, got); diff != "" || looks < 2 {
		t.Errorf("after %d looks (-want +got):\n%s", looks, diff)
	}
	looks = 0
	got = lasts(time.Hour, func() []string {
		looks++
		return []string{fmt.Sprint("new: of others ", looks)}
	})
	if len(got) > 0 || looks != 2 {
		t.Errorf("%q after %d looks, want nothing after the second", got, looks)
	}
}

func TestInventorySeesANamespace(t *testing.T) {
	ns := Namespace(t, "seen")
	if items := inventory(t); !slices.Contains(items, "namespace "+ns.Name) || !slices.IsSorted(items) {
		t.Errorf("%s is not in the sorted list %q", ns.Name, items)
	}
}

func TestSnapshotForgivesWhatIsCleanedUp(t *testing.T) {
	Snapshot(t)
	name := ownName("snapshot")
	ns, err := netns.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ns.Close()
		if err := netns.Remove(name); err != nil {
			t.Error(err)
		}
	})
}

func TestKnownAbsent(t *testing.T) {
	if !KnownAbsent("uml", "jit") || KnownAbsent("x86", "jit") || KnownAbsent("uml", "netem") {
		t.Error("the table of what the test kernels lack does not hold")
	}
}

// TestMissedTestsAreNoted looks at what testkernel/test -m reads.
func TestMissedTestsAreNoted(t *testing.T) {
	list, folder := filepath.Join(t.TempDir(), "missed"), t.TempDir()
	t.Setenv("WEIR_TEST_MISSED", list)
	t.Setenv("TEST_KERNEL", "")
	t.Chdir(folder)
	for _, test := range []string{"TestA/with_cases/1", "TestB"} {
		if err := noteMissed(test); err != nil {
			t.Fatal(err)
		}
	}
	want := folder + " TestA\n" + folder + " TestB\n"
	if got, err := os.ReadFile(list); err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	t.Setenv("TEST_KERNEL", "uml") // there nothing is noted
	if err := noteMissed("TestC"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(list); err != nil || string(got) != want {
		t.Errorf("under a test kernel: %q, %v; want %q", got, err, want)
	}
}
