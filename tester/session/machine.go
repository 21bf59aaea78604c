package session

import (
	"context"

	"weir/internal/fault"
	"weir/tester"
)

// machine is the engine of this machine: BPF generators and analyzers.
type machine struct{}

func (machine) Send(context.Context, Port, tester.Schedule) (Sender, error) {
	return nil, fault.New(fault.Testbed, "", "no generator")
}

func (machine) Receive(Port, Reception) (Receiver, error) {
	return nil, fault.New(fault.Testbed, "", "no analyzer")
}
