package crashpoint

import "math/rand/v2"

// most is how many points are visited at all: a sink that writes without end, or a call
// of gigabytes, must not keep the suite for days.
const most = 20_000

// choose picks which of the points 1 to total are visited: all, or limit of them, one by
// chance from each of limit equal parts. The first and the last are among them.
func choose(total, limit int, seed uint64) (points []int, sampled bool) {
	if limit <= 0 || limit > most {
		limit = most
	}
	if total <= limit {
		for n := 1; n <= total; n++ {
			points = append(points, n)
		}
		return points, false
	}
	if limit == 1 {
		return []int{total}, true
	}
	chance := rand.New(rand.NewPCG(seed, uint64(total)))
	points = append(points, 1)
	for i := 1; i < limit-1; i++ {
		low, high := 1+i*(total-1)/limit, 1+(i+1)*(total-1)/limit
		points = append(points, max(points[i-1]+1, low+1+chance.IntN(max(1, high-low))))
	}
	return append(points, max(points[limit-2]+1, total)), true
}
