// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"weir/internal/child"
)

// pausedCommand is a process that executes the command when it is released. It has a single thread,
// as a lender requires, unlike a Go program: a shell waits and executes [ExecutePart], which
// executes the command.
type pausedCommand struct {
	cmd   *exec.Cmd
	begin *os.File
}

// waitScript ends without executing the command if the pipe is closed first.
const waitScript = `read -r weir_release <&3 && exec "$0" 3<&-`

// ExecutePart is the name under which main and TestMain register [Execute] with child.Main.
const ExecutePart = "execute"

// image is a program to execute, passed as file descriptor imageFD.
type image struct {
	Path              string
	Args, Environment []string
}

const imageFD = 4

// Execute executes the command, with its original environment, which the shell might have changed.
func Execute(io.Reader, io.Writer) error {
	file := os.NewFile(imageFD, "image")
	var i image
	if err := errors.Join(gob.NewDecoder(file).Decode(&i), file.Close()); err != nil {
		return fmt.Errorf("read program to execute: %w", err)
	}
	return fmt.Errorf("start %s: %w", i.Path, syscall.Exec(i.Path, i.Args, i.Environment))
}

func startPaused(path string, args []string) (*pausedCommand, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own executable: %w", err)
	}
	file, err := memory(image{path, append([]string{path}, args...), os.Environ()})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	defer func() { _ = file.Close() }()
	wait, begin, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	defer func() { _ = wait.Close() }()
	cmd := exec.Command("/bin/sh", "-c", waitScript, self)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = child.Environment(ExecutePart)
	cmd.ExtraFiles = []*os.File{wait, file}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", path, err), begin.Close())
	}
	return &pausedCommand{cmd, begin}, nil
}

// memory returns an anonymous file with a gob-encoded value. Strings need not be UTF-8.
func memory(value any) (*os.File, error) {
	fd, err := unix.MemfdCreate("weir", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "memory")
	err = gob.NewEncoder(file).Encode(value)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// release starts the command.
func (h *pausedCommand) release() error {
	_, err := h.begin.Write([]byte{'\n'})
	if errors.Is(err, syscall.EPIPE) {
		err = nil // a signal has ended it; the exit status reports that
	}
	return errors.Join(err, h.begin.Close())
}

// cancel ends the process without starting the command.
func (h *pausedCommand) cancel() {
	_ = h.begin.Close()
	_ = h.cmd.Wait()
}
