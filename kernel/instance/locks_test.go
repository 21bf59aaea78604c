// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/testutil"
)

// snatch locks, as another user, every readable file below each folder named on its input.
func snatch(in io.Reader, out io.Writer) error {
	runtime.LockOSThread()
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 4711, 4711, 4711); errno != 0 {
		return errno
	}
	fmt.Fprintln(out, "begun")
	for lines := bufio.NewScanner(in); lines.Scan(); {
		locked, seen := 0, 0
		err := filepath.WalkDir(lines.Text(), func(path string, _ fs.DirEntry, err error) error {
			if seen++; err != nil {
				return err
			}
			if fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil && unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) == nil {
				locked++ // and open to the end
			}
			return nil
		})
		fmt.Fprintf(out, "locked %d of %d, %v; labs %v\n", locked, seen, err, ids())
	}
	return nil
}

// ids lists the labs visible to this process.
func ids() (all []string) {
	list, _ := List()
	for _, info := range list {
		all = append(all, info.ID)
	}
	return all
}

// Another user can lock the readable files of a lab's folder. That must not keep a dead lab alive,
// and living labs stay visible.
func TestLocksOfOtherUsersKeepNoLabIn(t *testing.T) {
	testutil.NeedRoot(t)
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WEIR_RUN_DIR", dir)
	lab, id := start(t, "hold")
	other, _ := start(t, "snatch")
	said := bufio.NewReader(other.Out)
	ask := func(want string) {
		t.Helper()
		if _, err := fmt.Fprintln(other.In, filepath.Join(Root(), id)); err != nil {
			t.Fatal(err)
		}
		if line, err := said.ReadString('\n'); err != nil || !strings.HasSuffix(line, want+"\n") {
			t.Errorf("another user: %s%v; want %s", line, err, want)
		}
	}
	ask("<nil>; labs [" + id + "]")
	if err := lab.Kill(); err != nil {
		t.Fatal(err)
	}
	<-lab.Done()
	ask("<nil>; labs []")
	if removed, err := Sweep(); err != nil || len(removed) != 1 || removed[0] != id {
		t.Errorf("with locks of another user: swept %v, %v; want %s", removed, err, id)
	}
	if err := other.Stop(5 * time.Second); err != nil {
		t.Error(err)
	}
}
