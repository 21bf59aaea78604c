// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/internal/units"
	"weir/modules/limit"
)

// FormatLend is the format of an [Ask].
const FormatLend = "weir-lend/1"

// MaxMessage is how long a message to or from a lender may be.
const MaxMessage = 16 << 10

// Ask is what a user asks a lender for. A descriptor of the process that it is for (pidfd_open(2))
// comes with it, on a socket that keeps messages apart (SOCK_SEQPACKET). The lender answers once
// the process is in its cgroup; an empty [Ask] then asks for what was counted, and the end of the
// connection ends it all.
type Ask struct {
	Format  string                            `json:"format"`
	Class   string                            `json:"class,omitempty"`
	Limits  map[limit.Direction]units.BitRate `json:"limits,omitempty"`
	Shadow  bool                              `json:"shadow,omitempty"`
	Command []string                          `json:"command,omitempty"` // for those who look what runs
}

// Answer is a lender's.
type Answer struct {
	Refusal *Refusal                            `json:"refusal,omitempty"` // nothing was done
	Notes   []string                            `json:"notes,omitempty"`   // what could not be done
	Counted map[limit.Direction]*limit.Counters `json:"counted,omitempty"`
	Class   json.RawMessage                     `json:"class,omitempty"` // what was done for the class, as weir run tells it
}

// Refusal is an error with its way out.
type Refusal struct {
	Status fault.Status `json:"status"`
	Error  string       `json:"error"`
	Try    string       `json:"try,omitempty"`
}

// Socket is where a lender listens: lend.sock below WEIR_RUN_DIR, or below /run/weir.
func Socket() string { return filepath.Join(filepath.Dir(registry()), "lend.sock") }

// lender is a connection to one.
type lender struct{ *net.UnixConn }

const whoLends = "run it as root, or have an administrator lend the rights: weir lend --help"

// busyTries is how often, and busyPause how long apart, a lender is tried that has no room for
// another connection in this moment: others may keep it busy.
const (
	busyTries = 100
	busyPause = 50 * time.Millisecond
)

func dialLender(path string) (lender, error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	for try := 1; try < busyTries && errors.Is(err, unix.EAGAIN); try++ {
		time.Sleep(busyPause)
		conn, err = net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	}
	switch {
	case errors.Is(err, unix.EAGAIN):
		return lender{}, fault.New(fault.Testbed, "try again, or ask an administrator who keeps connections to it open", "who lends the rights at %s has been busy with others for %s", path, busyTries*busyPause)
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ECONNREFUSED):
		return lender{}, fault.New(fault.Permission, whoLends, "this takes root, and nobody lends the rights at %s", path)
	case errors.Is(err, os.ErrPermission):
		return lender{}, fault.New(fault.Permission, "have an administrator add this user to the group of "+path, "the rights are not lent to this user: %w", err)
	case err != nil:
		return lender{}, fmt.Errorf("ask for rights: %w", err)
	}
	return lender{conn}, nil
}

// ask sends a message, with a descriptor unless it is negative.
func (l lender) ask(a Ask, fd int) error {
	text, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("ask for rights: %w", err)
	}
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	// Who is refused without a hearing has the answer already.
	if _, _, err := l.WriteMsgUnix(text, rights, nil); err != nil && !errors.Is(err, unix.EPIPE) {
		return fmt.Errorf("ask for rights: %w", err)
	}
	return nil
}

// answer reads one; a refusal is its error.
func (l lender) answer() (a Answer, err error) {
	text := make([]byte, MaxMessage)
	n, err := l.Read(text)
	if errors.Is(err, unix.ECONNRESET) { // comes before an answer that is there
		n, err = l.Read(text)
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err == nil {
		err = json.Unmarshal(text[:n], &a)
	}
	if err != nil {
		return a, fmt.Errorf("read lender's answer: %w", err)
	}
	if r := a.Refusal; r != nil {
		return a, fault.New(r.Status, r.Try, "%s", r.Error)
	}
	return a, nil
}
