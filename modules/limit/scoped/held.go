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

// heldCommand is a process that becomes the command when it is told to. It has one thread, as a
// lender asks of whom it moves, which a Go program has not: a shell waits, and becomes
// [ExecutePart], which becomes the command.
type heldCommand struct {
	cmd   *exec.Cmd
	begin *os.File
}

// waits is the shell's part: it ends without the command when nobody tells it to go on.
const waits = `read -r weir_lent <&3 && exec "$0" 3<&-`

// ExecutePart is the name under which main and TestMain register [Execute] with child.Main.
const ExecutePart = "execute"

// image is what to become; its file is the fourth after standard input.
type image struct {
	Path              string
	Args, Environment []string
}

const imageFD = 4

// Execute becomes the command, with the environment that a shell might have changed.
func Execute(io.Reader, io.Writer) error {
	file := os.NewFile(imageFD, "image")
	var i image
	if err := errors.Join(gob.NewDecoder(file).Decode(&i), file.Close()); err != nil {
		return fmt.Errorf("read what to execute: %w", err)
	}
	return fmt.Errorf("start %s: %w", i.Path, syscall.Exec(i.Path, i.Args, i.Environment))
}

func startHeld(path string, args []string) (*heldCommand, error) {
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
	cmd := exec.Command("/bin/sh", "-c", waits, self)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = child.Environment(ExecutePart)
	cmd.ExtraFiles = []*os.File{wait, file}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", path, err), begin.Close())
	}
	return &heldCommand{cmd, begin}, nil
}

// memory is a file without a name that holds a value (strings as they are: they need be no UTF-8).
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

// proceed has the command begin.
func (h *heldCommand) proceed() error {
	_, err := h.begin.Write([]byte{'\n'})
	if errors.Is(err, syscall.EPIPE) {
		err = nil // it was ended by a signal, as its status tells
	}
	return errors.Join(err, h.begin.Close())
}

// cancel ends it before it has begun.
func (h *heldCommand) cancel() {
	_ = h.begin.Close()
	_ = h.cmd.Wait()
}
