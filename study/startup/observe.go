package startup

import (
	"tare/workload"
)

type blocking struct{ observer }

const blockedPerStart = "blocked per start"

func blockedMetrics() []workload.Metric { return sharesOf("blocked time of a start") }
