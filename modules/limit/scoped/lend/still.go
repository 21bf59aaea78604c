// SPDX-License-Identifier: Apache-2.0

package lend

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
)

// stillTime is how long a process may take to stand still, and stillLook the time between two looks
// whether it does.
const stillTime, stillLook = time.Second, time.Millisecond

// still does something to a process by its number.
//
// A number is given anew once its process has ended, and the kernel moves by number, so that a user
// whose process ends at the right time could have a stranger's moved. While it is traced, a process
// that ends keeps its number until its tracer lets go; and one that stands still, with a single
// thread, cannot get rid of the tracer by having another thread execute a program. That it has a
// single thread, do must look.
func (p process) still(do func(pid int) error) error {
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: should the tracer not let go, the thread's end does
		ended <- p.traced(do)
	}()
	return <-ended
}

func (p process) traced(do func(pid int) error) error {
	pid, err := p.number()
	if err != nil {
		return err
	}
	if err := unix.PtraceSeize(pid); err != nil {
		return fault.New(fault.Usage, "run it without a tracer", "the process cannot be made to stand still: %w", err)
	}
	if err := unix.PtraceInterrupt(pid); err != nil {
		return fmt.Errorf("have process stand still: %w", err)
	}
	signal, err := stopped(pid)
	if err != nil {
		return err
	}
	// Whoever was traced has this number now; whether that is the process, it is told only now.
	if now, wrong := p.number(); wrong != nil || now != pid {
		err = ended(wrong)
	} else {
		err = do(pid)
	}
	// A signal on which it stands still is its own.
	if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, uintptr(signal), 0, 0); errno != 0 && errno != unix.ESRCH {
		err = errors.Join(err, fmt.Errorf("let process go on: %w", errno))
	}
	return err
}

// stopped waits until a traced process stands still, and returns the signal on which it does, if
// that is one of its own.
func stopped(pid int) (unix.Signal, error) {
	for deadline := time.Now().Add(stillTime); time.Now().Before(deadline); time.Sleep(stillLook) {
		var status unix.WaitStatus
		got, err := unix.Wait4(pid, &status, unix.WALL|unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR) || err == nil && got == 0:
		case err != nil || !status.Stopped():
			return 0, ended(err)
		case status>>16 != 0: // by the interruption, or with its job
			return 0, nil
		default:
			return status.StopSignal(), nil
		}
	}
	return 0, fault.New(fault.Failed, tryAgain, "the process does not stand still within %s", stillTime)
}
