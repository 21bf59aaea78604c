// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

// lending is a host that lends the rights of weir run to a group of users in a cgroup.
type lending struct {
	*testing.T
	here   *netns.Namespace
	far    *far
	dir    string
	home   cgroup.Cgroup
	lender *exec.Cmd
	said   *bytes.Buffer
}

// friend is a user of the group, stranger is not.
const friend, stranger = 61711, 61712

func newLending(t *testing.T) *lending {
	t.Helper()
	testutil.NeedRoot(t)
	for _, name := range []string{"bash", "setpriv", "nsenter"} {
		testutil.Command(t, name)
	}
	dir, err := os.MkdirTemp("", "weir-lend-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // for users
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l := &lending{T: t, here: testutil.Namespace(t, "here"), dir: dir, home: testutil.Cgroup(t)}
	l.far = newFar(t, l.here)
	l.start()
	t.Cleanup(func() { l.stop(syscall.SIGTERM) })
	return l
}

// inside is a command on the host, in the users' cgroup.
func (l *lending) inside(arguments ...string) *exec.Cmd {
	l.Helper()
	group, err := os.Open(l.home.Path)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = group.Close() })
	cmd := exec.Command("nsenter", append([]string{"--net=" + netns.Path(l.here.Name), "--"}, arguments...)...)
	cmd.Env = append(os.Environ(), "WEIR_RUN_DIR="+l.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	return cmd
}

// as runs a command line as a user.
func as(user int, arguments ...string) []string {
	return append([]string{"setpriv", "--reuid", fmt.Sprint(user), "--regid", fmt.Sprint(user), "--clear-groups", "--"}, arguments...)
}

func (l *lending) start() {
	l.Helper()
	l.lender, l.said = l.inside(binary, "lend", "--group", fmt.Sprint(friend)), &bytes.Buffer{}
	l.lender.Stderr = l.said
	socket := filepath.Join(l.dir, "lend.sock")
	if err := l.lender.Start(); err != nil {
		l.Fatal(err)
	}
	testutil.Eventually(l.T, patience, "the lender listens", func() bool {
		info, err := os.Stat(socket)
		if err != nil || info.Mode().Perm() != 0o660 {
			return false
		}
		conn, err := net.Dial("unixpacket", socket)
		return err == nil && conn.Close() == nil
	})
}

func (l *lending) stop(by syscall.Signal) {
	_ = l.lender.Process.Signal(by)
	_ = l.lender.Wait()
}

// send is a script that sends a datagram to the far end.
func (l *lending) send() string {
	return fmt.Sprintf("echo x >/dev/udp/%s/%s; ", farAddress, port(l.far.datagrams.LocalAddr()))
}

func (l *lending) gone() {
	l.Helper()
	testutil.Eventually(l.T, patience, "nothing is left of what was lent", func() bool {
		groups, _ := filepath.Glob(filepath.Join(l.home.Path, "weir-run-*"))
		files, _ := filepath.Glob(filepath.Join(l.dir, "run", "*"))
		return len(groups)+len(files) == 0
	})
}

// waiting is a user's command that sends, sends once more on request, and is in the class until
// then.
type waiting struct {
	*exec.Cmd
	input io.WriteCloser
	said  *os.File // its standard error
}

func (l *lending) waiting() *waiting {
	l.Helper()
	w := &waiting{Cmd: l.inside(as(friend, binary, "run", "--class", "lbe", "--limit", "100Mbit", "--", "bash", "-c", l.send()+"read x; "+l.send()+"read x; exit 5")...)}
	// The command outlives weir run, and holds no pipe of the test except its input.
	input, output, err := os.Pipe()
	if err != nil {
		l.Fatal(err)
	}
	if w.said, err = os.CreateTemp(l.dir, "said"); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = errors.Join(w.said.Close(), output.Close()) })
	w.Stdin, w.Stderr, w.input = input, w.said, output
	if err := errors.Join(w.Start(), input.Close()); err != nil {
		l.Fatal(err)
	}
	if got := l.far.tos(l.T); got != 1<<2 {
		l.Errorf("a datagram came with %#x, want LE's 0x4; %s", got, l.said)
	}
	return w
}

func (l *lending) goOn(w *waiting) {
	l.Helper()
	if _, err := w.input.Write([]byte("\n")); err != nil {
		l.Fatal(err)
	}
	if got := l.far.tos(l.T); got != 0 {
		l.Errorf("without weir run or the lender a datagram came with %#x", got)
	}
}

// A user with lent rights needs no root, and his command is below his own cgroup.
func TestAUserRunsACommandInLessThanBestEffort(t *testing.T) {
	l := newLending(t)
	connect := fmt.Sprintf("exec 3<>/dev/tcp/%s/%s; echo x >&3; read x <&3; ss -tin; ", farAddress, port(l.far.listener.Addr()))
	var stdout, stderr bytes.Buffer
	cmd := l.inside(as(friend, binary, "run", "--class", "lbe", "--limit", "100Mbit", "--format", "json", "--", "bash", "-c",
		"tail -n 1 /proc/self/cgroup; printenv odd.name; "+l.send()+connect+"exit 7")...)
	cmd.Env = append(cmd.Env, "odd.name=is \xff kept")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	finish(t, cmd, cmd.Run(), &stdout, &stderr).want(t, 7)
	if got := l.far.tos(t); got != 1<<2 {
		t.Errorf("a datagram came with %#x, want LE's 0x4", got)
	}
	if want := regexp.MustCompile("(?m)^0::.*/" + filepath.Base(l.home.Path) + "/weir-run-[0-9a-f]+$"); !want.MatchString(stdout.String()) {
		t.Errorf("the command was in another cgroup:\n%s", stdout.String())
	}
	if !strings.Contains(stdout.String(), "weir_lbe") && !strings.Contains(stderr.String(), "keep the host's congestion control") {
		t.Errorf("the connection has another congestion control, and nobody says why:\n%s\n%s", stdout.String(), stderr.String())
	}
	if !strings.Contains(stdout.String(), "is \xff kept") {
		t.Errorf("a variable is lost:\n%s", stdout.String())
	}
	var told struct {
		Class struct {
			DSCP, Packets, Marked int
		}
		Egress struct{ Packets int }
	}
	document := stderr.String()[max(strings.Index(stderr.String(), "{"), 0):]
	if err := json.Unmarshal([]byte(document), &told); err != nil || told.Class.DSCP != 1 || told.Class.Marked < 2 || told.Egress.Packets < 2 {
		t.Errorf("told %+v, %v of\n%s", told, err, stderr.String())
	}
	l.gone()
}

func TestRightsAreLentToWhoMayHaveThem(t *testing.T) {
	l := newLending(t)
	for _, test := range []struct {
		user, status int
		arguments    []string
		want         string
	}{
		{stranger, 4, []string{"--class", "lbe", "--", "true"}, "may not connect to the lender"},
		{friend, 4, []string{"--class", "ef", "--", "true"}, "only less than best effort"},
		{friend, 4, []string{"--limit", "1Mbit", "--user", "root", "--", "true"}, "require root"},
		{friend, 4, []string{"--limit", "1Mbit", "--pid", "1"}, "require root"},
		{friend, 2, []string{"--limit", "1Mbit", "--", "weir-no-such-command"}, "find command"},
	} {
		var stdout, stderr bytes.Buffer
		cmd := l.inside(as(test.user, append([]string{binary, "run"}, test.arguments...)...)...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		got := finish(t, cmd, cmd.Run(), &stdout, &stderr)
		got.want(t, test.status)
		if !strings.Contains(got.stderr, test.want) {
			t.Errorf("%v: %s", test.arguments, got.stderr)
		}
	}
	l.gone()
}

// For any requested limit, the limits of the cgroups above hold: theirs see every packet.
func TestWhatIsLentIsBelowTheLimitsAbove(t *testing.T) {
	l := newLending(t)
	summary := filepath.Join(l.dir, "summary.json")
	var stdout, stderr bytes.Buffer
	inner := as(friend, binary, "run", "--class", "lbe", "--limit", "1Gbit", "--", "bash", "-c", "tail -n 1 /proc/self/cgroup; "+l.send()+l.send()+l.send())
	cmd := l.inside(append([]string{binary, "run", "--limit", "1Mbit", "--summary", summary, "--"}, inner...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	finish(t, cmd, cmd.Run(), &stdout, &stderr).want(t, 0)
	text, err := os.ReadFile(summary)
	var outer struct{ Egress struct{ Packets int } }
	if err := errors.Join(err, json.Unmarshal(text, &outer)); err != nil || outer.Egress.Packets < 3 {
		t.Errorf("the limit above has seen %d packets, %v\n%s", outer.Egress.Packets, err, stderr.String())
	}
	if !regexp.MustCompile("weir-run-[0-9a-f]+/weir-run-[0-9a-f]+\n$").MatchString(stdout.String()) {
		t.Errorf("the command was in %s", stdout.String())
	}
	l.gone()
}

// If either end is killed, the loan ends, the command continues, and nothing is left after it.
func TestWhatIsLentEndsWithEitherEnd(t *testing.T) {
	t.Run("weir run", func(t *testing.T) {
		l := newLending(t)
		w := l.waiting()
		if err := w.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = w.Wait()
		testutil.Eventually(t, 30*time.Second, "the run is listed no more", func() bool {
			out, err := l.inside(binary, "status", "--format", "json").Output()
			return err == nil && !strings.Contains(string(out), "weir-run-")
		})
		l.goOn(w)
		_ = w.input.Close()
		l.gone()
	})
	t.Run("the lender", func(t *testing.T) {
		l := newLending(t)
		w := l.waiting()
		l.stop(syscall.SIGKILL)
		l.goOn(w)
		l.start()
		_ = w.input.Close()
		err := w.Wait()
		said, failed := os.ReadFile(w.said.Name())
		if w.ProcessState.ExitCode() != 5 || !strings.Contains(string(said), "the lender has ended") {
			t.Errorf("%v, %v\n%s", err, failed, said)
		}
		l.stop(syscall.SIGTERM)
		l.start()
		l.gone()
	})
}
