// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"weir/cmd/weir/cli"
	"weir/internal/fault"
	"weir/kernel/instance"
	"weir/lab"
	labrun "weir/lab/run"
	"weir/lab/scenario"
	"weir/record"
)

// readyFD is the descriptor on which a detached lab reports readiness or an error.
const readyFD = 3

func newUpCommand(a *cli.App) *cobra.Command {
	var set []string
	var carrier string
	var detach, detached bool
	command := &cobra.Command{
		Use:   "up NAME|FILE",
		Short: "Build a scenario's hosts and links and keep them for your own programs",
		Long: `Build a scenario's hosts and links, without traffic, and keep them until Ctrl-C or
weir lab down. If the scenario sweeps parameters, the lab has their first combination;
--set selects another one.

With --detach the command returns, and a background process keeps the lab.`,
		Example: `  sudo weir lab up loss-study --set loss=1% --detach
  sudo weir lab exec sender -- ping -c 3 receiver
  sudo weir lab down`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeScenario,
		RunE: func(command *cobra.Command, args []string) error {
			if err := sweep(a); err != nil {
				return err
			}
			s, _, err := loadScenario(args[0], set)
			if err != nil {
				return err
			}
			if detach && !detached {
				return detachLab(command.Context(), a)
			}
			ready := func(err error) error { return err }
			if detached {
				syscall.CloseOnExec(readyFD) // the emulator must not keep it open
				ready = tellParent(os.NewFile(readyFD, "ready"))
			}
			return holdLab(command.Context(), a, s, carrier, ready)
		},
	}
	command.Flags().StringArrayVar(&set, "set", nil, "value of a parameter, as in --set loss=1% (repeatable)")
	command.Flags().StringVar(&carrier, "carrier", "auto", "link emulation: auto, edt, netem or emulator")
	command.Flags().BoolVar(&detach, "detach", false, "return when the lab is up, and keep it in the background")
	command.Flags().BoolVar(&detached, "detached", false, "")
	_ = command.Flags().MarkHidden("detached")
	return command
}

// holdLab builds the first cell and keeps it until ctx ends. ready reports when it is up, or the
// error.
func holdLab(ctx context.Context, a *cli.App, s *scenario.Scenario, carrierName string, ready func(error) error) (err error) {
	if err := instance.CheckRoot(); err != nil {
		return ready(err)
	}
	choice, err := lab.Carrier(carrierName, s)
	if err != nil {
		return ready(err)
	}
	cells, err := s.Expand()
	if err != nil {
		return ready(err)
	}
	kept, err := instance.New(s.Name, instance.Up)
	if err != nil {
		return ready(err)
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	bench, err := labrun.Raise(ctx, kept, &cells[0], choice.Carrier)
	if err != nil {
		return ready(cli.Stopped(ctx, err))
	}
	defer func() { err = errors.Join(err, bench.Close()) }()
	if err := printUp(a, kept.Info, &cells[0]); err != nil {
		return ready(err)
	}
	if err := ready(nil); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// printUp explains how to use a running lab.
func printUp(a *cli.App, info instance.Info, cell *scenario.Cell) error {
	if a.Format == "json" {
		return a.JSON(struct {
			Format string `json:"format"`
			instance.Info
		}{"weir-lab-up/1", info})
	}
	t := record.Table{Title: "Lab " + info.ID + " is up: " + info.Scenario, Columns: []string{"node", "namespace", "IPv4", "IPv6"},
		Note: "Run a program inside with: weir lab exec NODE -- COMMAND. Take the lab down with Ctrl-C or: weir lab down " + info.ID}
	for _, node := range cell.Nodes {
		row := []string{node.Name, info.Namespace(node.Name), "", ""}
		for i, family := range []int{4, 6} {
			if address, ok := cell.Address(node.Name, family); ok {
				row[2+i] = address.String()
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return a.Table(t)
}

// tellParent makes the function by which a detached lab reports to the command that started it.
func tellParent(pipe *os.File) func(error) error {
	return func(err error) error {
		if err != nil {
			_, _ = fmt.Fprintf(pipe, "%d\n%s\n%v\n", fault.Of(err), fault.Advice(err), err)
		} else {
			_, _ = fmt.Fprint(pipe, "up")
		}
		_ = pipe.Close()
		return err
	}
}

// detachLab starts this command line again in a session of its own and waits until its lab is up.
func detachLab(ctx context.Context, a *cli.App) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own executable: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	defer func() { _ = read.Close() }()
	output, err := os.CreateTemp("", "weir-lab-up-*")
	if err != nil {
		return errors.Join(fmt.Errorf("detach: %w", err), write.Close())
	}
	defer func() { _ = output.Close(); _ = os.Remove(output.Name()) }()
	holder := exec.Command(self, append(slices.Clone(a.Args[1:]), "--detached")...)
	holder.Stdout, holder.ExtraFiles = output, []*os.File{write}
	holder.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = holder.Start()
	_ = write.Close()
	if err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	answer, err := awaitHolder(ctx, a, holder, read)
	if err != nil {
		return err
	}
	if answer != "up" {
		_ = holder.Wait()
		return holderFault(answer)
	}
	if _, err := output.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	_, err = io.Copy(a.Stdout, output)
	return err
}

// awaitHolder reads the report of the holder. If ctx ends first, it ends the holder.
func awaitHolder(ctx context.Context, a *cli.App, holder *exec.Cmd, read io.Reader) (string, error) {
	said := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(read)
		said <- string(text)
	}()
	select {
	case answer := <-said:
		return answer, nil
	case <-ctx.Done():
		_ = holder.Process.Signal(syscall.SIGTERM)
		_ = holder.Wait()
		return "", cli.Stopped(ctx, ctx.Err())
	}
}

// holderFault rebuilds the error with which a holder has ended.
func holderFault(answer string) error {
	lines := strings.SplitN(strings.TrimSpace(answer), "\n", 3)
	var status fault.Status
	if len(lines) < 3 {
		return fault.New(fault.Failed, "run it without --detach to see the error", "the lab's process ended at once")
	}
	if _, err := fmt.Sscan(lines[0], &status); err != nil {
		status = fault.Failed
	}
	return fault.New(status, lines[1], "%s", lines[2])
}
