cpdef object map_of(object array)
