package packet

import (
	"context"
	"errors"

	"weir/tester"
)

// Mechanism is the name of this one in tester.Generation.
const Mechanism = "AF_XDP"

func Start(ctx context.Context, port Port, schedule tester.Schedule) (Running, error) {
	return nil, errors.New("x")
}
