package workload

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
)

// objectKinds are S3's objects: each of its neighbours had 500 of 20 KB, 100 of 80 KB
// and 80 of 200 KB. These are the least numbers in the same proportion, and together a
// round.
var objectKinds = []struct{ number, units int64 }{{25, 20}, {5, 80}, {4, 200}}

const (
	objectsInRound = 25 + 5 + 4
	unitsInRound   = 25*20 + 5*80 + 4*200
	largestObject  = 200 // units

	leastUnit, mostUnit = 64, 4096 // bytes
	// mostObjects is in KiB.
	mostObjects = 64 << 20
	// usualObjects are S3's, in KiB: 34 MB.
	usualObjects = 34_000
)

// objects are what an idle service holds, whichever service it is: rounds of S3's
// objects.
type objects struct {
	rounds  int64
	unit    int64 // bytes
	hot     bool  // the same half is asked for all the time
	cycle   bool  // one is asked for after another, in an order that stays
	asked   int64 // percent that is asked for at all, drawn once; 0 is all
	regular int64 // percent of the content that compresses to next to nothing
}

const (
	drawUniform = "uniform"
	drawHot     = "hot"
	drawCycle   = "cycle"
)

// objects reads what is held, by default so many KiB.
func (from *parameters) objects(usual int64) (o objects) {
	none := "0: none; "
	if usual > 0 {
		none = ""
	}
	kib := from.whole("objects", usual, 0, mostObjects, fmt.Sprintf("KiB of objects that it holds, of 20, 80 and 200 units "+
		"as 25 to 5 to 4; %sto the nearest %d units, up to %d", none, unitsInRound, mostObjects))
	o.unit = from.whole("unit", 1024, leastUnit, mostUnit, "bytes of a unit, RANGE")
	draw := from.word("draw", drawUniform, "which object a request asks for: uniform, any alike; hot, any of a half that "+
		"stays the same; or cycle, one after another in an order that is drawn once, and after the last the first again",
		drawUniform, drawHot, drawCycle)
	o.hot, o.cycle = draw == drawHot, draw == drawCycle
	o.asked = from.whole("asked", 100, 1, 100,
		"percent of the objects that requests draw from, RANGE: which ones is drawn once, and stays")
	if o.hot && o.asked < 100 {
		from.refuse("asked", "100 with draw="+drawHot+", whose half is a part already: or draw="+drawUniform+" or "+drawCycle)
	}
	o.regular = from.whole("compressible", 0, 0, 100,
		"percent of the objects' bytes that compress to next to nothing, RANGE; the others hardly do")
	round := unitsInRound * o.unit
	if kib > 0 && kib<<10 < round {
		from.refuse("objects", fmt.Sprintf("at least %d, a round of objects (or a smaller unit than %d)", (round+1023)>>10, o.unit))
	}
	o.rounds = (kib<<10 + round/2) / round
	return o
}

// readObjects reads them of any idle service.
func readObjects(p Params) (objects, error) {
	return parsed(p, func(from *parameters) objects { return from.objects(0) })
}

// sizedObjects gives the parameters with which a service holds about so many bytes.
func sizedObjects(p Params, bytes int64) (Params, error) {
	sized := maps.Clone(p)
	delete(sized, "objects") // which is to be replaced
	o, err := readObjects(sized)
	if err != nil {
		return sized, err
	}
	least := (unitsInRound*o.unit + 1023) >> 10 << 10
	if bytes <= least-1024 || bytes > mostObjects<<10 {
		return sized, &WrongSize{Bytes: bytes, Least: least, Most: mostObjects << 10}
	}
	sized["objects"] = strconv.FormatInt((bytes+1023)>>10, 10)
	_, err = readObjects(sized)
	return sized, err
}

func (o objects) count() int64 { return o.rounds * objectsInRound }
func (o objects) bytes() int64 { return o.rounds * unitsInRound * o.unit }

// largest is the bytes of the largest one.
func (o objects) largest() int64 { return largestObject * o.unit }

// size is the bytes of one, from 0.
func (o objects) size(n int64) int64 {
	at := n % objectsInRound
	for _, kind := range objectKinds {
		if at < kind.number {
			return kind.units * o.unit
		}
		at -= kind.number
	}
	return 0 // objectsInRound is the sum
}

// objectPath is where a web server has one.
func objectPath(n int64) string { return "/o/" + strconv.FormatInt(n, 10) }

// objectKey is by what a store has it.
func objectKey(n int64) string { return "o:" + strconv.FormatInt(n, 10) }

// objectContent is one object's bytes, in two parts: what it is called, and a stretch
// of the letters that all are taken from, at a place that is its own.
type objectContent struct {
	name, rest []byte
}

// content is what one holds where it was filled by seed. No two objects of any
// neighbours hold the same.
func (o objects) content(seed uint64, n int64) objectContent {
	name := fmt.Appendf(nil, "object-%d-of-%x-", n, seed)
	letters := lettersOf(o.regular)
	left := o.size(n) - int64(len(name))
	from := int64(mix(mix(seed)^uint64(n)) % uint64(int64(len(letters))-left))
	return objectContent{name, letters[from : from+left]}
}

// bytes are both parts in one.
func (c objectContent) bytes() []byte { return append(bytes.Clone(c.name), c.rest...) }

// check says what is wrong with what came back. It compares every byte, which is
// cheaper than any sum over them, and nothing is made for it.
func (c objectContent) check(got []byte) error {
	rest, found := bytes.CutPrefix(got, c.name)
	if found && bytes.Equal(rest, c.rest) {
		return nil
	}
	return fmt.Errorf("%.40q and so on, %d bytes, is not the object that was laid there: want %d bytes that begin with %q", got, len(got), len(c.name)+len(c.rest), c.name)
}

// Letters are drawn once a process for each share that compresses. There are so many
// that hardly two pages of memory begin at the same place among them: they look to
// whoever compresses pages, each by itself, like any others.
const (
	lettersLength = 4 << 20
	lettersStride = 128 // of which the first part is one letter, over and over
)

var letters struct {
	sync.Mutex
	of map[int64][]byte
}

func lettersOf(regular int64) []byte {
	letters.Lock()
	defer letters.Unlock()
	if made := letters.of[regular]; made != nil {
		return made
	}
	made := make([]byte, lettersLength)
	random := rand.NewPCG(uint64(regular), lettersLength)
	for at := 0; at < len(made); at += lettersStride {
		same := at + int(lettersStride*regular/100)
		for i := at; i < same; i++ {
			made[i] = fieldAlphabet[0]
		}
		for i := same; i < at+lettersStride; i++ {
			made[i] = fieldAlphabet[random.Uint64()&63]
		}
	}
	if letters.of == nil {
		letters.of = map[int64][]byte{}
	}
	letters.of[regular] = made
	return made
}

// objectDraws gives which object is asked for next. Several goroutines may call it.
type objectDraws struct {
	of     objects
	part   part    // empty where all may be asked for
	order  shuffle // of a cycle
	mu     sync.Mutex
	random *rand.Rand
	at     int64 // in the cycle
}

// draws draws by seed, from that part of the objects which the seed that they were filled
// by determines: who asks again later asks for the same ones.
func (o objects) draws(filled, seed uint64) *objectDraws {
	d := &objectDraws{of: o, random: rand.New(rand.NewPCG(seed, uint64(o.count())))}
	if o.asked > 0 && o.asked < 100 {
		d.part = o.part(filled)
	}
	if o.cycle {
		d.order = shuffle{uint64(d.candidates()), mix(filled ^ cycleKey)}
	}
	return d
}

// cycleKey sets the order of a cycle apart from what else is drawn by the same seed.
const cycleKey = 0x6379636c65

// candidates are how many objects may be asked for.
func (d *objectDraws) candidates() int64 {
	if n := d.part.count(); n > 0 {
		return n
	}
	return d.of.count()
}

func (d *objectDraws) next() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.of.hot {
		n := d.candidates()
		k := int64(0)
		if d.of.cycle {
			k, d.at = int64(d.order.at(uint64(d.at))), (d.at+1)%n
		} else {
			k = d.random.Int64N(n)
		}
		if len(d.part) > 0 {
			return d.part.object(k)
		}
		return k
	}
	// Every other one; which ones changes from round to round, so that it is half of
	// each kind.
	const half = objectsInRound / 2
	k := d.random.Int64N(d.of.rounds * half)
	round, at := k/half, k%half
	return round*objectsInRound + 2*at + round%2
}
