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

// A process must stop within stopTimeout, polled every stopInterval.
const stopTimeout, stopInterval = time.Second, time.Millisecond

// whileStopped stops the process and calls do with its PID.
//
// PIDs are reused, and the kernel moves processes by PID: without the stop, a user could let the
// process end at the right time and have another user's process moved. A traced process keeps its
// PID until the tracer detaches. A stopped process with a single thread cannot lose its tracer
// through an execve in another thread; do must check that there is a single thread.
func (p process) whileStopped(do func(pid int) error) error {
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the end of the thread detaches if PTRACE_DETACH fails
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
		return fault.New(fault.Usage, "run it without a tracer", "stop process: %w", err)
	}
	if err := unix.PtraceInterrupt(pid); err != nil {
		return fmt.Errorf("stop process: %w", err)
	}
	signal, err := stopped(pid)
	if err != nil {
		return err
	}
	// Only now is it certain that the traced PID belongs to the process.
	if now, invalid := p.number(); invalid != nil || now != pid {
		err = ended(invalid)
	} else {
		err = do(pid)
	}
	// A signal that stopped the process is delivered to it.
	if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, uintptr(signal), 0, 0); errno != 0 && errno != unix.ESRCH {
		err = errors.Join(err, fmt.Errorf("continue process: %w", errno))
	}
	return err
}

// stopped waits until a traced process stops, and returns the pending signal, or 0 if the tracer
// stopped it.
func stopped(pid int) (unix.Signal, error) {
	for deadline := time.Now().Add(stopTimeout); time.Now().Before(deadline); time.Sleep(stopInterval) {
		var status unix.WaitStatus
		got, err := unix.Wait4(pid, &status, unix.WALL|unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR) || err == nil && got == 0:
		case err != nil || !status.Stopped():
			return 0, ended(err)
		case status>>16 != 0: // by PTRACE_INTERRUPT or a group stop
			return 0, nil
		default:
			return status.StopSignal(), nil
		}
	}
	return 0, fault.New(fault.Failed, tryAgain, "the process did not stop within %s", stopTimeout)
}
