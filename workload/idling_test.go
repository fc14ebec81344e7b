package workload

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"tare/load"
)

// S3's neighbour: 500 objects of 20 KB, 100 of 80 KB, 80 of 200 KB; and others in the
// same proportion.
func TestObjectsAreS3s(t *testing.T) {
	o, err := readObjects(resolve(t, static))
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[int64]int{}
	total := int64(0)
	for n := range o.count() {
		sizes[o.size(n)]++
		total += o.size(n)
	}
	if len(sizes) != 3 || sizes[20<<10] != 500 || sizes[80<<10] != 100 || sizes[200<<10] != 80 {
		t.Errorf("%v", sizes)
	}
	if total != o.bytes() || total != usualObjects<<10 {
		t.Errorf("%d bytes of objects, said to be %d, want %d", total, o.bytes(), usualObjects<<10)
	}
}

func TestIdlersAreSized(t *testing.T) {
	for _, w := range idlers {
		p := resolve(t, w, "unit", "512")
		const round = unitsInRound * 512
		for _, bytes := range []int64{round, 10*round + round/3, 136 << 20} {
			sized, err := w.Sized(p, bytes)
			if err != nil {
				t.Fatal(err)
			}
			o, err := readObjects(sized)
			if err != nil {
				t.Fatal(err)
			}
			if off := o.bytes() - bytes; off > round/2+1024 || off < -round/2 {
				t.Errorf("%s: asked for %d bytes, it holds %d", w.Name(), bytes, o.bytes())
			}
			program, err := w.Program(sized)
			if err != nil {
				t.Fatal(err)
			}
			if program.MemoryNeed < o.bytes() {
				t.Errorf("%s is said to need %d bytes for %d of objects", w.Name(), program.MemoryNeed, o.bytes())
			}
		}
		for _, bytes := range []int64{0, round - 1024} {
			_, err := w.Sized(p, bytes)
			if err == nil || !strings.Contains(err.Error(), "at least") {
				t.Errorf("%s, %d bytes: %v, want that it is too little", w.Name(), bytes, err)
			}
		}
		if p["objects"] != resolve(t, w)["objects"] {
			t.Errorf("%s: the parameters that were handed over have changed", w.Name())
		}
	}
}

// Content is a seed's and an object's own, and the same every time.
func TestObjectsContentIsItsOwn(t *testing.T) {
	o := objects{rounds: 3, unit: 64}
	seen := map[string]string{}
	for seed := range uint64(3) {
		for n := range o.count() {
			c := o.content(seed, n)
			text := c.bytes()
			if int64(len(text)) != o.size(n) || c.check(text) != nil || !bytes.Equal(text, o.content(seed, n).bytes()) {
				t.Fatalf("object %d of seed %d: %d bytes, want %d; %v", n, seed, len(text), o.size(n), c.check(text))
			}
			is := fmt.Sprintf("object %d of seed %d", n, seed)
			if other := seen[string(text)]; other != "" {
				t.Fatalf("%s is %s", is, other)
			}
			seen[string(text)] = is
			// Any other byte, or another number of them, is reported.
			for _, wrong := range [][]byte{nil, text[:len(text)-1], append(bytes.Clone(text), 'x'), flip(text, 0), flip(text, len(text)/2), flip(text, len(text)-1)} {
				if c.check(wrong) == nil {
					t.Fatalf("%s: %d other bytes pass for it", is, len(wrong))
				}
			}
		}
	}
}

func flip(text []byte, at int) []byte {
	text = bytes.Clone(text)
	text[at] ^= 1
	return text
}

// As much of a page compresses as was asked for.
func TestObjectsCompressAsAsked(t *testing.T) {
	const page = 4096
	sizes := map[int64]int{}
	for _, percent := range []int64{0, 50, 100} {
		o := objects{rounds: 1, unit: 1024, regular: percent}
		var packed bytes.Buffer
		w, err := flate.NewWriter(&packed, flate.BestSpeed)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(o.content(1, 0).bytes()[page : 2*page]); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		sizes[percent] = packed.Len()
	}
	// A letter has six bits of eight, which flate finds, and what memory is compressed
	// by does not.
	if sizes[0] < page*7/10 || sizes[100] > page/10 || sizes[50] < sizes[0]*4/10 || sizes[50] > sizes[0]*7/10 {
		t.Errorf("a page of %d bytes becomes %v, by percent", page, sizes)
	}
}

// Draws are even over all objects, or over the same half, with half of each kind.
func TestObjectsAreDrawnEvenly(t *testing.T) {
	for _, hot := range []bool{false, true} {
		o := objects{rounds: 4, unit: 1024, hot: hot}
		const draws = 200_000
		drawn, bytes := map[int64]int{}, int64(0)
		for _, d := range []*objectDraws{o.draws(7, 1), o.draws(7, 2)} {
			for range draws / 2 {
				drawn[d.next()]++
			}
		}
		want := o.count()
		if hot {
			want /= 2
		}
		if int64(len(drawn)) != want {
			t.Fatalf("hot %t: %d objects are drawn, want %d", hot, len(drawn), want)
		}
		for n, times := range drawn {
			if n < 0 || n >= o.count() {
				t.Fatalf("object %d of %d", n, o.count())
			}
			bytes += o.size(n)
			// Six standard deviations of a Poisson count.
			if mean := float64(draws) / float64(want); (float64(times)-mean)*(float64(times)-mean) > 36*mean {
				t.Errorf("hot %t: object %d was drawn %d times, want about %.0f", hot, n, times, mean)
			}
		}
		if hot && bytes != o.bytes()/2 {
			t.Errorf("the hot half has %d bytes of %d", bytes, o.bytes())
		}
	}
	o := objects{rounds: 4}
	a, b, c := o.draws(7, 1), o.draws(7, 1), o.draws(7, 2)
	same := 0
	for range 100 {
		n := a.next()
		if n != b.next() {
			t.Fatal("a seed draws twice in another sequence")
		}
		if n == c.next() {
			same++
		}
	}
	if same == 100 {
		t.Error("two seeds draw alike")
	}
}

// A part that is asked for is the same whoever draws from it and when, another of another
// neighbour, as large as was said, of each kind alike, and drawn evenly.
func TestPartThatIsAskedForStays(t *testing.T) {
	for _, percent := range []int64{1, 25, 50, 99} {
		o := objects{rounds: 40, unit: 64, asked: percent}
		drawn, size, kinds := map[int64]int{}, int64(0), map[int64]int64{}
		const draws = 100_000
		for _, d := range []*objectDraws{o.draws(3, 1), o.draws(3, 2)} {
			for range draws / 2 {
				drawn[d.next()]++
			}
		}
		for n, times := range drawn {
			if n < 0 || n >= o.count() {
				t.Fatalf("%d %%: object %d of %d", percent, n, o.count())
			}
			size += o.size(n)
			kinds[o.size(n)]++
			if mean := float64(draws) / float64(len(drawn)); (float64(times)-mean)*(float64(times)-mean) > 36*mean {
				t.Errorf("%d %%: object %d was drawn %d times, want about %.0f", percent, n, times, mean)
			}
		}
		for _, kind := range objectKinds {
			want := max(1, (o.rounds*kind.number*percent+50)/100)
			if got := kinds[kind.units*o.unit]; got != want {
				t.Errorf("%d %%: %d objects of %d units, want %d", percent, got, kind.units, want)
			}
		}
		if want := o.bytes() * percent / 100; percent > 1 && (size < want*97/100 || size > want*103/100) {
			t.Errorf("%d %%: %d bytes of %d", percent, size, o.bytes())
		}
		other, same := o.draws(4, 1), 0
		for range 1000 {
			if _, ok := drawn[other.next()]; ok {
				same++
			}
		}
		if same == 1000 {
			t.Errorf("%d %%: two neighbours are asked for the same part", percent)
		}
	}
}

// A cycle asks for each object of the part once before it asks for one again, each time in
// the same order whoever asks, and in another of another neighbour.
func TestCycleGoesRound(t *testing.T) {
	for _, percent := range []int64{50, 100} {
		o := objects{rounds: 4, unit: 64, asked: percent, cycle: true}
		a, b, other := o.draws(3, 1), o.draws(3, 2), o.draws(4, 1)
		var first []int64
		seen := map[int64]bool{}
		for range o.count() * percent / 100 {
			n := a.next()
			if seen[n] || n < 0 || n >= o.count() {
				t.Fatalf("%d %%: object %d is asked for again, or there is none", percent, n)
			}
			seen[n], first = true, append(first, n)
		}
		ordered, alike := true, true
		for i, want := range first {
			if n, m := a.next(), b.next(); n != want || m != want {
				t.Fatalf("%d %%: number %d is object %d, and %d for who asks later, want %d", percent, i, n, m, want)
			}
			ordered = ordered && (i == 0 || want > first[i-1])
			alike = other.next() == want && alike
		}
		if ordered || alike {
			t.Errorf("%d %%: the order is that of the objects: %t; another neighbour has the same: %t", percent, ordered, alike)
		}
	}
}

// A shuffle gives each number once, of however many.
func TestShuffle(t *testing.T) {
	for _, of := range []uint64{1, 2, 3, 64, 1000, 1025} {
		s, seen, moved := shuffle{of, 9}, map[uint64]bool{}, 0
		for n := range of {
			at := s.at(n)
			if at >= of || seen[at] {
				t.Fatalf("of %d: %d goes to %d, again or beyond", of, n, at)
			}
			seen[at] = true
			if at != n {
				moved++
			}
		}
		if of >= 64 && moved < int(of)/2 {
			t.Errorf("of %d only %d are moved", of, moved)
		}
	}
}

func TestIdlersRefuseWrongValues(t *testing.T) {
	for _, c := range []struct {
		w           Workload
		name, value string
		want        string
	}{
		{static, "objects", "0", "at least 1"},
		{static, "objects", "100", "at least 1700"},
		{static, "objects", "-1", "from 0"},
		{static, "unit", "63", "from 64"},
		{static, "draw", "cold", "hot"},
		{static, "compressible", "101", "to 100"},
		{static, "asked", "0", "from 1"},
		{heap, "asked", "101", "to 100"},
		{redis{}, "asked", "half", "from 1"},
		{static, "port", "0", "65535"},
		{static, "content", "some", "none"},
		{static, "rate", "fast", "closed"},
		{heap, "collector", "z", "serial"},
		{heap, "garbage", "-1", "from 0"},
		{heap, "spare", "10", "from 25"},
		{heap, "pages", "large", "huge"},
		{redis{}, "snapshot", "-1", "from 0"},
		{redis{}, "objects", "5", "at least 1700"},
		{redis{}, "port", "65536", "65535"},
	} {
		_, err := Resolve(c.w, map[string]string{c.name: c.value})
		refusedAs[*WrongValue](t, err, c.name+"="+c.value, c.want)
	}
	_, err := redis{}.Asks(&trial{params: resolve(t, redis{})}, 1, 1)
	refusedAs[*WrongValue](t, err, "objects=0")
	p := resolve(t, static, "content", "none")
	_, err = static.Load(t.Context(), &trial{params: p}, 1)
	refusedAs[*WrongValue](t, err, "content=none")
}

// fakeStore is a web server that keeps objects by what spoil makes of them.
func fakeStore(t *testing.T, spoil func(path string, content []byte) (int, []byte)) *trial {
	t.Helper()
	var mu sync.Mutex
	kept := map[string][]byte{}
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/" {
			return
		}
		if r.Method == http.MethodPut {
			kept[r.URL.Path], _ = io.ReadAll(r.Body)
		}
		status, body := spoil(r.Method+" "+r.URL.Path, bytes.Clone(kept[r.URL.Path]))
		w.WriteHeader(status)
		_, _ = w.Write(body)
	})
	return &trial{params: resolve(t, heap, "objects", "1700", "count", "400", "warmup", "0s", "connections", "2"), address: address, ended: make(chan struct{})}
}

func intact(_ string, content []byte) (int, []byte) { return http.StatusOK, content }

// As an ordinary workload such a server is filled by its readiness, and loaded.
func TestObjectServerIsDriven(t *testing.T) {
	tr := fakeStore(t, intact)
	if err := heap.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, heap, tr)
	if r, err := heap.Load(t.Context(), tr, 5); err != nil || r.Requests != 400 || r.Failed() != 0 {
		t.Errorf("%+v, %v, want 400 answers", r, err)
	}
}

// What is laid there otherwise than it was sent is reported at once, with which it is.
func TestFillTellsWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(path string, content []byte) (int, []byte)
		want  []string
	}{
		"cut off":  {func(_ string, c []byte) (int, []byte) { return http.StatusOK, c[:len(c)/2] }, []string{"object 0 of 34", "not the object"}},
		"too long": {func(_ string, c []byte) (int, []byte) { return http.StatusOK, append(c, 'x') }, []string{"object 0 of 34"}},
		"refused":  {func(_ string, c []byte) (int, []byte) { return http.StatusInsufficientStorage, []byte("full") }, []string{"507", "full"}},
		"one wrong": {func(p string, c []byte) (int, []byte) {
			if p == "PUT /o/30" {
				c = flip(c, len(c)-1)
			}
			return http.StatusOK, c
		}, []string{"object 30 of 34"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := heap.Fill(t.Context(), fakeStore(t, c.spoil), 1)
			if err == nil {
				t.Fatal("it was filled")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q in it", err, want)
				}
			}
		})
	}
}

// An object that has become another is a failed request, and none of the right ones.
func TestAsksTellsWhatIsWrong(t *testing.T) {
	tr := fakeStore(t, func(path string, content []byte) (int, []byte) {
		switch path {
		case "GET /o/3":
			return http.StatusOK, flip(content, len(content)-1)
		case "GET /o/4":
			return http.StatusNotFound, nil
		}
		return http.StatusOK, content
	})
	if err := heap.Fill(t.Context(), tr, 9); err != nil {
		t.Fatal(err)
	}
	target, err := heap.Asks(tr, 9, 1)
	if err != nil {
		t.Fatal(err)
	}
	r, err := load.Run(t.Context(), target, load.Options{Connections: 1, Count: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if r.Errors["body"] == 0 || r.Errors["status 404"] == 0 || r.Requests+r.Errors["body"]+r.Errors["status 404"] != 1000 {
		t.Errorf("%d answers and %v, want some of each", r.Requests, r.Errors)
	}
}

// Redis' values are checked alike.
func TestRedisObjectsAreChecked(t *testing.T) {
	var mu sync.Mutex
	kept := map[string]string{}
	spoilt := false
	address := respServer(t, func(command []string) string {
		mu.Lock()
		defer mu.Unlock()
		switch command[0] {
		case "SET":
			kept[command[1]] = command[2]
			return "+OK\r\n"
		case "GET":
			value := kept[command[1]]
			if spoilt {
				value = strings.ToUpper(value)
			}
			return fmt.Sprintf("$%d\r\n%s\r\n", len(value), value)
		}
		return "-ERR\r\n"
	})
	p, err := redis{}.Sized(resolve(t, redis{}), 2*unitsInRound<<10)
	if err != nil {
		t.Fatal(err)
	}
	tr := &trial{params: p, address: address, ended: make(chan struct{})}
	if err := (redis{}).Fill(t.Context(), tr, 3); err != nil {
		t.Fatal(err)
	}
	if len(kept) != 2*objectsInRound {
		t.Errorf("%d objects were laid there, want %d", len(kept), 2*objectsInRound)
	}
	target, err := redis{}.Asks(tr, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{200, 0} {
		r, err := load.Run(t.Context(), target, load.Options{Connections: 1, Count: 200})
		if err != nil || r.Requests != want || r.Requests+r.Errors["reply"] != 200 {
			t.Errorf("%+v, %v, want %d right answers", r, err, want)
		}
		mu.Lock()
		spoilt = true
		mu.Unlock()
	}
}
