package catalog

// PartitionOf is the partition of a hall's shows.
var PartitionOf = partition

// Bounds of the cache.
const (
	MaxHouses = maxHouses
	MaxWeight = maxWeight
)

// Cached returns how many houses and plans are kept, and the weight counted.
func (s *Service) Cached() (houses, plans, weight int) {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	return len(*s.cache.houses.Load()), len(s.cache.plans), s.cache.weight
}
