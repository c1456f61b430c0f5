"""What a build without MPI says where a launcher started several of it."""

import unittest

from mpi_support import MPIRUN, Case


@unittest.skipIf(MPIRUN, "this build has MPI")
class WithoutMpi(Case):
    def test_several_processes_are_refused_with_one_message(self):
        self.data()
        for rank in range(2):
            self.environment.update(OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK=str(rank))
            _, err = self.run_it(0, "fit", "--y", "y.npy", "--z", "z.npy", "-o", "m.safetensors", expect=2)
            self.assertEqual(len(self.said(err)), 1 - rank)
            if rank == 0:
                self.assertIn("mpirun started 2 copies of this program, which was built without MPI", err)
        self.assertFalse((self.folder / "m.safetensors").exists())

    def test_one_of_one_needs_no_mpi(self):
        self.data()
        self.environment.update(OMPI_COMM_WORLD_SIZE="1", OMPI_COMM_WORLD_RANK="0")
        self.run_it(0, "fit", "--y", "y.npy", "--z", "z.npy", "-o", "m.safetensors")


if __name__ == "__main__":
    unittest.main()
