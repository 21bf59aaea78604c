// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/child"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{"build-for-ever": buildForEver, "hold": hold, "hold-handles": holdHandles, "idle": idle, "snatch": snatch})
	os.Exit(m.Run())
}

// buildForEver makes and removes labs until it is killed.
func buildForEver(_ io.Reader, out io.Writer) error {
	fmt.Fprintln(out, "begun")
	for {
		lab, err := New("crash", Run)
		if err != nil {
			return err
		}
		if err := build(lab, 3); err != nil {
			return err
		}
		if err := lab.Close(); err != nil {
			return err
		}
	}
}

// hold keeps one lab until its input ends.
func hold(in io.Reader, out io.Writer) error {
	lab, err := New("held", Up)
	if err != nil {
		return err
	}
	if err := build(lab, 2); err != nil {
		return err
	}
	fmt.Fprintln(out, lab.ID)
	_, _ = io.Copy(io.Discard, in)
	return lab.Close()
}

// holdHandles keeps one lab with open handles to its namespaces, like a topology.
func holdHandles(in io.Reader, out io.Writer) error {
	lab, err := New("held", Up)
	if err != nil {
		return err
	}
	if err := build(lab, 2); err != nil {
		return err
	}
	for _, name := range lab.Nodes {
		ns, err := netns.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = ns.Close() }()
	}
	fmt.Fprintln(out, lab.ID)
	_, _ = io.Copy(io.Discard, in)
	return nil
}

func build(lab *Instance, nodes int) error {
	var names []string
	for i := range nodes {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	if err := lab.Announce(names); err != nil {
		return err
	}
	for _, name := range names {
		ns, err := netns.Create(lab.Namespace(name))
		if err != nil {
			return err
		}
		_ = ns.Close()
	}
	return nil
}

// start runs a part in a child that stops when the test ends, and returns the first line of its
// output.
func start(t *testing.T, part string) (*child.Process, string) {
	t.Helper()
	process, err := child.Start(t.Context(), part, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(process.Out).ReadString('\n')
	if err != nil {
		t.Fatalf("child %s said nothing: %v", part, err)
	}
	return process, strings.TrimSpace(line)
}

// left lists the remains of labs in the test's run directory: directories, and namespaces with
// their ids.
func left(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(Root())
	if errors.Is(err, fs.ErrNotExist) {
		return nil // killed before it had made a lab, or the directory of labs
	}
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		found = append(found, entry.Name())
		names, err := netns.List(Info{ID: entry.Name()}.prefix())
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, names...)
	}
	return found
}

func TestKillAtAnyMomentLeavesNothingForTheNextCommand(t *testing.T) {
	testutil.NeedRoot(t)
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	random := testutil.Rand(t)
	found := 0
	for range 25 {
		process, _ := start(t, "build-for-ever")
		<-time.After(time.Duration(random.Int64N(int64(30 * time.Millisecond))))
		if err := unix.Kill(process.PID(), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-process.Done()
		ids := left(t)
		found += len(ids)
		if _, err := Sweep(); err != nil {
			t.Fatal(err)
		}
		if rest := left(t); len(rest) > 0 {
			t.Fatalf("sweeping %v left %v", ids, rest)
		}
		for _, id := range ids {
			if names, _ := netns.List("weir-" + id); len(names) > 0 {
				t.Fatalf("sweeping %v left the namespaces %v", ids, names)
			}
		}
	}
	if found == 0 {
		t.Error("no kill hit a lab: the test has tested nothing")
	}
}

func TestSweepLeavesLivingLabsAlone(t *testing.T) {
	testutil.NeedRoot(t)
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	process, id := start(t, "hold")
	if removed, err := Sweep(); err != nil || len(removed) > 0 {
		t.Fatalf("Sweep removed %v: %v", removed, err)
	}
	list, err := List()
	if err != nil || len(list) != 1 || list[0].ID != id || list[0].PID != process.PID() {
		t.Fatalf("List = %+v, %v; want the lab %s of process %d", list, err, id, process.PID())
	}
	if names, _ := netns.List(list[0].prefix()); len(names) != 2 {
		t.Errorf("the living lab has the namespaces %v, want 2", names)
	}
	if err := process.Stop(5 * time.Second); err != nil {
		t.Error(err)
	}
	if rest := left(t); len(rest) > 0 {
		t.Errorf("closing left %v", rest)
	}
}

func TestEndTakesALabDown(t *testing.T) {
	testutil.NeedRoot(t)
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	_, id := start(t, "hold") // it does not handle SIGTERM: End must clean up after it
	info, err := Find("")
	if err != nil || info.ID != id {
		t.Fatalf("Find = %+v, %v; want the only lab, %s", info, err, id)
	}
	if err := End(context.Background(), info); err != nil {
		t.Fatal(err)
	}
	if rest := left(t); len(rest) > 0 {
		t.Errorf("End left %v", rest)
	}
}

func TestCloseEndsWhatRunsInside(t *testing.T) {
	testutil.NeedRoot(t)
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	lab, err := New("inside", Up)
	if err != nil {
		t.Fatal(err)
	}
	if err := build(lab, 1); err != nil {
		t.Fatal(err)
	}
	inside := exec.Command(testutil.Command(t, "nsenter"), "--net="+netns.Path(lab.Namespace("n0")), "sleep", "600")
	if err := inside.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = inside.Process.Kill() }()
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, 5*time.Second, "nsenter", func() bool {
		target, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", inside.Process.Pid))
		return err == nil && target != own
	})
	if err := lab.Close(); err != nil {
		t.Fatal(err)
	}
	if err := inside.Wait(); err == nil || inside.ProcessState.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
		t.Errorf("the process inside ended with %v, want it killed", err)
	}
	if _, err := os.Stat(filepath.Join(Root(), lab.ID)); !os.IsNotExist(err) {
		t.Errorf("the lab's directory is left: %v", err)
	}
}

func TestTwoLabsDoNotShareNames(t *testing.T) {
	testutil.NeedRoot(t)
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	var labs []*Instance
	for range 3 {
		lab, err := New("same", Run)
		if err != nil {
			t.Fatal(err)
		}
		labs = append(labs, lab)
		if err := build(lab, 2); err != nil {
			t.Fatal(err)
		}
	}
	if err := labs[0].Close(); err != nil {
		t.Fatal(err)
	}
	for _, lab := range labs[1:] {
		if names, _ := netns.List(lab.prefix()); len(names) != 2 {
			t.Errorf("removing another lab left %v of lab %s", names, lab.ID)
		}
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOrphansAreFoundWithoutTheirDirectory(t *testing.T) {
	testutil.NeedRoot(t)
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	process, id := start(t, "hold-handles")
	if err := os.RemoveAll(filepath.Join(Root(), id)); err != nil {
		t.Fatal(err)
	}
	prefix := "weir-" + id + "-" // other tests have namespaces too
	if removed, err := sweepOrphans(prefix, 0); err != nil || len(removed) > 0 {
		t.Fatalf("removed %v of a living owner: %v", removed, err)
	}
	if err := unix.Kill(process.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-process.Done()
	if removed, err := sweepOrphans(prefix, time.Hour); err != nil || len(removed) > 0 {
		t.Fatalf("removed young ones: %v, %v", removed, err)
	}
	removed, err := sweepOrphans(prefix, 0)
	if left, _ := netns.List(prefix); err != nil || len(removed) != 2 || len(left) > 0 {
		t.Errorf("removed %v, left %v: %v", removed, left, err)
	}
}
