// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"weir/internal/child"
	"weir/internal/kernel/cgroup"
	"weir/internal/kernel/netns"
	"weir/internal/wait"
	"weir/limit"
)

// KeeperPart is the name under which main and TestMain register [Keeper] with child.Main.
const KeeperPart = "limit-keeper"

const (
	// keeperTime is how long the keeper may take.
	keeperTime = 10 * time.Second
	// keeperLook is the time between two looks whether a limit has ended, of which nobody tells.
	keeperLook = 10 * time.Millisecond
)

// keep starts a process that sets sockets free once the limit has ended, kill -9 of this process
// included: they would be paced for as long as they are open. Nil where the kernel cannot.
func keep(ctx context.Context, plane *limit.DataPlane) (*child.Process, error) {
	task, err := plane.Rescue()
	if errors.Is(err, limit.ErrNoIterator) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	keeper, err := child.StartIn(context.WithoutCancel(ctx), KeeperPart, os.Stderr, func(attr *syscall.SysProcAttr) error {
		attr.Pdeathsig = 0 // it is there for what comes after its parent's death
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = json.NewEncoder(keeper.In).Encode(task)
	if err == nil {
		_, err = bufio.NewReader(keeper.Out).ReadByte()
	}
	if err != nil {
		return nil, fmt.Errorf("have sockets set free: %w", errors.Join(err, keeper.Stop(keeperTime)))
	}
	return keeper, nil
}

// Keeper reads which limit it is about, answers once it can do its work, waits for the end of its
// input and of the limit, and sets the sockets of this network namespace and of those of the
// cgroup's processes free.
func Keeper(in io.Reader, out io.Writer) error {
	var task limit.Rescue
	if err := json.NewDecoder(in).Decode(&task); err != nil {
		return nil // there is no limit yet
	}
	plane, err := task.Open()
	if err != nil {
		return err
	}
	defer func() { _ = plane.Close() }()
	if _, err := fmt.Fprintln(out); err != nil {
		return nil
	}
	_, _ = io.Copy(io.Discard, in) // until whoever holds the other end closes it, or dies
	ctx, cancel := context.WithTimeout(context.Background(), keeperTime)
	defer cancel()
	for {
		ended, err := task.Ended()
		if err != nil {
			return err
		}
		if ended {
			return free(plane, task.Cgroup)
		}
		if err := wait.For(ctx, keeperLook); err != nil {
			return fmt.Errorf("wait for the end of the limit: %w", err)
		}
	}
}

func free(plane *limit.DataPlane, group string) error {
	paths := []string{"/proc/self/ns/net"}
	pids, err := cgroup.Cgroup{Path: group}.AllProcesses()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, pid := range pids {
		paths = append(paths, fmt.Sprintf("/proc/%d/ns/net", pid))
	}
	seen := map[uint64]bool{}
	var all []error
	for _, path := range paths {
		ns, err := netns.OpenPath(path)
		if err != nil {
			continue // a process that has ended
		}
		if inode, err := ns.Inode(); err == nil && !seen[inode] {
			seen[inode] = true
			all = append(all, plane.Free(ns))
		}
		_ = ns.Close()
	}
	return errors.Join(all...)
}
